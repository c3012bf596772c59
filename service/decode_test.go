package service

import (
	"fmt"
	"testing"
)

func TestSketch(t *testing.T) {
	d, f := Decode("service.yaml", "web", []byte("command: [agent, \"$$x\"]\nenviroment: {}\nrestart: always\nlimits: {nofile: 5, core: 1MiB}\nready: {notify: true, tcp: x}\nsockets: [{listen: 'tcp:127.0.0.1:80'}]\n"), nil)
	fmt.Println(f.Error())
	fmt.Println(string(Encode(d)))
}
