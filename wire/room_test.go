package wire

import "testing"

func TestSupervisorLeavesRoomForServices(t *testing.T) {
	for limit := FewestPIDs; limit < 5000; limit++ {
		n := SupervisorThreads(limit)
		if n < fewestThreads || n > mostThreads || n > fewestThreads && n > (limit-othersPIDs)/2 {
			t.Errorf("with a limit of %d there are %d threads", limit, n)
		}
		if left := limit - 9 - SupervisorRoom(limit, true); left < 10 {
			t.Errorf("with a limit of %d services have %d", limit, left)
		}
	}
}
