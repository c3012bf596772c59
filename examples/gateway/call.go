package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// call makes one HTTP request and copies the answer's body to out: what curl
// would do, in an image that has none. An answer that is not 2xx is an error.
func call(args []string, out io.Writer) error {
	fl := flag.NewFlagSet("call", flag.ContinueOnError)
	fl.SetOutput(io.Discard)
	timeout := fl.Duration("timeout", 10*time.Second, "how long to wait for the answer")
	body := fl.String("d", "", "body: makes it a POST")
	if err := fl.Parse(args); err != nil {
		return err
	}
	if fl.NArg() != 1 {
		return fmt.Errorf("usage: gateway call [--timeout D] [-d BODY] URL")
	}
	method := http.MethodGet
	fl.Visit(func(f *flag.Flag) {
		if f.Name == "d" {
			method = http.MethodPost
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), *timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, fl.Arg(0), strings.NewReader(*body))
	if err != nil {
		return fmt.Errorf("cannot ask: %w", err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("cannot ask: %w", err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(out, answer.Body); err != nil {
		return fmt.Errorf("cannot read the answer: %w", err)
	}
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("%s answered %s", fl.Arg(0), answer.Status)
	}
	return nil
}
