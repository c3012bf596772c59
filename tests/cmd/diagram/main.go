// Diagram prints the service machine's state diagram and its table of phases and
// events, as Markdown. With -w FILE it puts them between the marks in FILE.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"

	"rlminit/tests/explorelife"
)

func main() {
	log.SetFlags(0)
	file := flag.String("w", "", "the document to write to, instead of stdout")
	flag.Parse()
	all, err := explorelife.All()
	if err != nil {
		log.Fatal(err)
	}
	if *file == "" {
		fmt.Print(all.Markdown())
		return
	}
	text, err := os.ReadFile(*file)
	if err != nil {
		log.Fatal(err)
	}
	now, err := explorelife.Replace(string(text), all.Markdown())
	if err != nil {
		log.Fatalf("%s: %v", *file, err)
	}
	if now == string(text) {
		return
	}
	if err := os.WriteFile(*file, []byte(now), 0o644); err != nil {
		log.Fatal(err)
	}
}
