module rlminit/fleet

go 1.26

require rlminit v0.0.0

replace rlminit => ../
