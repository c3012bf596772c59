package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"rlminit/control"
)

func main() {
	client, err := control.Open()
	if err != nil {
		panic(err)
	}
	of, _ := strconv.Atoi(os.Args[1])
	each, _ := strconv.Atoi(os.Args[2])
	var all sync.WaitGroup
	began := time.Now()
	for i := range of {
		all.Go(func() {
			for n := range each {
				verb := "start"
				if n%2 == 1 {
					verb = "stop"
				}
				if _, err := client.Operate(context.Background(), control.BeginOperation{Verb: verb, Names: []string{fmt.Sprintf("w%05d", i)}}); err != nil {
					panic(err)
				}
			}
		})
	}
	all.Wait()
	var ru syscall.Rusage
	syscall.Getrusage(0, &ru)
	d := time.Since(began)
	fmt.Printf("%d: %.0f/s, client cpu %d us/op\n", of, float64(of*each)/d.Seconds(), (ru.Utime.Nano()+ru.Stime.Nano())/1000/int64(of*each))
}
