package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"rlminit/control"
)

// jobs submits so many jobs at once, and prints how many of each state came of
// them, under how many numbers, and how many ran at once at most.
func jobs(count int) error {
	client := control.Open()
	ctx := context.Background()
	ids := make([]string, count)
	failures := make([]error, count)
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() {
			var job control.Job
			job, failures[i] = client.Submit(ctx, control.RunJob{Command: []string{"true"}, Detach: true}, nil)
			ids[i] = job.Job
		})
	}
	submitted := make(chan struct{})
	go func() {
		all.Wait()
		close(submitted)
	}()
	most := 0
	for done := false; ; {
		list, err := client.Jobs(ctx)
		if err != nil {
			return err
		}
		run, left := 0, 0
		for _, j := range list {
			switch j.State {
			case "validated", "running":
				run++
				left++
			case "pending":
				left++
			}
		}
		most = max(most, run)
		if done && left == 0 {
			break
		}
		select {
		case <-submitted:
			done = true
		case <-time.After(20 * time.Millisecond):
		}
	}
	states, numbers := map[string]int{}, map[string]bool{}
	for i, id := range ids {
		if failures[i] != nil {
			return failures[i]
		}
		job, err := client.Job(ctx, id)
		if err != nil {
			return err
		}
		states[job.State]++
		numbers[id] = true
	}
	fmt.Printf("%v under %d numbers, %d at once\n", states, len(numbers), most)
	return nil
}

// writers has so many write the same file at once, each with one letter as often as
// size says.
func writers(profile, path string, count, size int) error {
	client := control.Open()
	failures := make(chan error, count)
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() {
			content := make([]byte, size)
			for k := range content {
				content[k] = byte('a' + i%26)
			}
			_, err := client.WriteFile(context.Background(), control.WriteFile{Profile: profile, Path: path, Content: string(content)}, nil)
			failures <- err
		})
	}
	all.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}
