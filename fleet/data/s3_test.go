package data

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"golang.org/x/sys/unix"
)

var (
	figures = flag.Int64("figures", 0, "TestFigures: how many `bytes` to save and restore, in S3 and in a directory")
	server  = flag.String("s3", "", "the `program` of the S3 server (default: built from ../test/s3)")
)

// s3Server starts a real S3 server (versitygw) on a directory, and opens a bucket there.
func s3Server(t *testing.T) (*Store, string) {
	t.Helper()
	program := *server
	if program == "" {
		program = filepath.Join(t.TempDir(), "versitygw")
		build := exec.Command("go", "build", "-o", program, "github.com/versity/versitygw/cmd/versitygw")
		build.Dir = "../test/s3"
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("cannot build the S3 server: %v: %s", err, out)
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := free.Addr().String()
	must(t, free.Close())
	cmd := exec.Command(program, "--port", address, "posix", t.TempDir())
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY=test", "ROOT_SECRET_KEY=secret-of-test")
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	must(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		if cmd.Wait(); t.Failed() {
			t.Log(said.String())
		}
	})
	for end := time.Now().Add(time.Minute); ; {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the S3 server does not answer: %v", err)
		}
		time.Sleep(20 * time.Millisecond) // a poll for the condition
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret-of-test")
	s, err := Open(t.Context(), "s3://agents?region=us-east-1&use_path_style=true&endpoint=http://"+address+"&prefix=fleet/")
	must(t, err)
	t.Cleanup(func() { s.Close() })
	name := "agents"
	plain, err := Open(t.Context(), "s3://agents?region=us-east-1&use_path_style=true&endpoint=http://"+address)
	must(t, err)
	defer plain.Close()
	var client *s3.Client
	if !plain.bucket.(cloud).As(&client) {
		t.Fatal("it is no bucket of S3")
	}
	_, err = client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &name})
	must(t, err)
	return s, address
}

// Against a real server: a save of several parts, its restore, a collection, and what a
// person sees of wrong credentials and of a bucket that is not there.
func TestS3(t *testing.T) {
	if testing.Short() {
		t.Skip("builds an S3 server")
	}
	s, address := s3Server(t)
	dir := filepath.Join(t.TempDir(), "alice")
	aProfile(t, dir, "one")
	fill(t, filepath.Join(dir, "large"), 50_000_000)
	first, err := s.Save(t.Context(), dir, ref(17, 1))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "later"), []byte("later"), 0o600))
	m, err := s.Save(t.Context(), dir, ref(17, 2))
	must(t, err)
	must(t, s.Collect(t.Context(), "alice", m))
	if all := keys(t, s); len(all) != 2 || all[0] != manifestKey(m.Object) || all[1] != m.Object {
		t.Errorf("left are %q", all)
	}
	to := filepath.Join(t.TempDir(), "alice")
	must(t, s.Restore(t.Context(), m, to, nil))
	if got, want := tree(t, to), strings.Replace(tree(t, dir), "drwxr-x--x", "drwxr-x---", 1); got != want {
		t.Errorf("what was restored is not what was saved: %d bytes of a listing, not %d", len(got), len(want))
	}
	if err := s.Restore(t.Context(), first, to, nil); err == nil {
		t.Error("what was collected is still there")
	}
	for url, why := range map[string]string{
		"s3://nowhere?region=us-east-1&use_path_style=true&endpoint=http://" + address: "NoSuchBucket",
		"s3://agents?region=us-east-1&use_path_style=true&endpoint=http://127.0.0.1:1": "refused",
	} {
		other, err := Open(t.Context(), url)
		must(t, err)
		if _, err := other.Save(t.Context(), dir, ref(17, 3)); err == nil || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", url, err)
		}
		must(t, other.Close())
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
	other, err := Open(t.Context(), "s3://agents?region=us-east-1&use_path_style=true&endpoint=http://"+address)
	must(t, err)
	defer other.Close()
	if _, err := other.Save(t.Context(), dir, ref(17, 3)); err == nil || !strings.Contains(err.Error(), "SignatureDoesNotMatch") {
		t.Error(err)
	}
}

// fill writes a file of which half can be compressed.
func fill(t testing.TB, path string, size int64) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	chance := rand.NewChaCha8([32]byte{1})
	buf := make([]byte, 64<<10)
	for at := int64(0); at < size; at += int64(len(buf)) {
		chance.Read(buf[:len(buf)/2])
		_, err := w.Write(buf[:min(int64(len(buf)), size-at)])
		must(t, err)
	}
	must(t, w.Flush())
}

// TestFigures measures. Run it alone: memory is that of the process.
func TestFigures(t *testing.T) {
	if *figures == 0 {
		t.Skip("only with -figures BYTES")
	}
	dir := filepath.Join(t.TempDir(), "alice")
	aProfile(t, dir, "one")
	fill(t, filepath.Join(dir, "large"), *figures)
	local, _ := aStore(t)
	remote, _ := s3Server(t)
	for what, s := range map[string]*Store{"file": local, "s3": remote} {
		to := filepath.Join(t.TempDir(), "alice")
		var m Manifest
		save := timed(t, func() (err error) { m, err = s.Save(t.Context(), dir, ref(17, 1)); return err })
		restore := timed(t, func() error { return s.Restore(t.Context(), m, to, nil) })
		read := timed(t, func() error { return s.RestoreStream(t.Context(), m, io.Discard) })
		t.Logf("%s: %.0f MB, %.0f MB stored; save %s, restore %s, read alone %s; %s",
			what, float64(m.Size)/1e6, float64(m.Stored)/1e6, save(m.Size), restore(m.Size), read(m.Size), peak(t))
	}
}

// timed says how fast something was, and how much processor time it took, which does not
// depend on what else the machine has to do.
func timed(t testing.TB, do func() error) func(size int64) string {
	t.Helper()
	cpu := func() time.Duration {
		var u unix.Rusage
		must(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	began, used := time.Now(), cpu()
	must(t, do())
	took, spent := time.Since(began), cpu()-used
	return func(size int64) string {
		return fmt.Sprintf("%.0f MB/s (%.1f s of CPU)", float64(size)/1e6/took.Seconds(), spent.Seconds())
	}
}

// peak is the most memory that the process has had.
func peak(t testing.TB) string {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	must(t, err)
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return fmt.Sprint("peak ", strings.TrimSpace(rest))
		}
	}
	return "peak unknown"
}
