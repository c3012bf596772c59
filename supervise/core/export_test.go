package core

// Names is how many names a Set knows: of services, and of what they refer to.
func (s *Set) Names() int { return len(s.naming.nodes) }

// Awake is when an operation is to be looked at next though nothing changes; 0: none is.
func (s *Set) Awake() (next int64) {
	for _, o := range s.Operations.operations {
		if at := o.deadline.at; o.deadline.place >= 0 && (next == 0 || at < next) {
			next = at
		}
	}
	return next
}

// Lingers tells whether a life is a member of an operation that is over.
func (l *Life) Lingers() bool {
	for _, m := range l.in {
		if m.of.Over() {
			return true
		}
	}
	return false
}

// OfSpawn is the service whose run a spawn id is; nil: it is nobody's.
func (s *Set) OfSpawn(id uint64) *Life { return s.spawns[id] }
