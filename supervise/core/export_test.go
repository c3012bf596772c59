package core

// Names is how many names a Set knows: of services, and of what they refer to.
func (s *Set) Names() int { return len(s.naming.nodes) }
