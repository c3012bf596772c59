package store

import "context"

// Files says what is wrong with the files of etcd.tls.
func (c Config) Files() error {
	_, err := c.tls()
	return err
}

// Authenticates tells whether etcd asks its clients who they are, or cannot say.
func (s *Store) Authenticates(ctx context.Context) bool {
	var err error
	ctx, over := s.begin(ctx, s.timeout)
	defer over(&err)
	r, err := s.client.AuthStatus(ctx)
	return err != nil || r.Enabled
}
