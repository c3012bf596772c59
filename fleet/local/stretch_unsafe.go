//go:build unsafe

package local

import "time"

// stretch switches deadlines off, in a build that nobody is to run but the test of the
// nemesis, which must see two gateways of a profile at once then.
const stretch = int64(time.Hour)
