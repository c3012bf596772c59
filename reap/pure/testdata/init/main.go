// Command init is a pure init and nothing else, for tests.
package main

import _ "rlminit/reap/pure"

func main() {}
