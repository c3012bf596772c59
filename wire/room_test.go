package wire

import "testing"

func TestSupervisorLeavesRoomForServices(t *testing.T) {
	for limit := FewestPIDs; limit < 5000; limit++ {
		n := SupervisorThreads(limit)
		if n < fewestThreads || n > mostThreads || n > fewestThreads && n > (limit-FewestPIDs)/2 {
			t.Errorf("with a limit of %d there are %d threads", limit, n)
		}
		files := limit >= CrampedPIDs
		tier1 := 6
		if files {
			tier1 = 9
		}
		if left := limit - tier1 - SupervisorRoom(limit, files); left < 5 || files && left < 10 {
			t.Errorf("with a limit of %d services have %d", limit, left)
		}
	}
}
