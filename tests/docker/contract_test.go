package docker

import (
	"os"
	"testing"

	"rlminit/tests/contract"
)

// byEngine names the parts of the contract that an engine changes: its
// capabilities, system-call filter, cgroups, volumes, tmpfs and terminals, what it
// does to PID 1, and one part of each kind of command. The rest is the same in a
// namespace, where tests/ns runs all of it; RLMINIT_TEST_ALL=1 runs it here too.
var byEngine = []string{
	"MainExitCode", "MainNotRunnable", "MainGetsSignals", "InitAbilities", "ParentDeath",
	"MainRouting", "ExitOn", "SupervisedMain", "BootSteps", "MainOfAnotherUser", "BootMakesEnvironment",
	"StartStopRestart", "ProbeIsItsServices", "PassedSocket", "LogsAreKept", "Health", "Reload",
	"ProfileLifecycle", "ProfileTravels", "PurgeLeavesNothing", "FilesAreTheServiceUsers",
	"PlanAndApply", "ApplyConfiguration",
	"IntentSurvivesStop", "IntentSurvivesKill", "BootIsRecorded",
	"EveryProcessIsConfined", "LimitsAreInForce", "StdoutCanBeOpened", "AccessIsDecidedByUid", "GatewayCannotControl", "ExecIsTheService",
	"RunEnds", "DeadlineEndsAll", "LeftBehindIsEnded", "Sessions", "Hooks", "Thresholds", "JobsAreBounded",
	"SupervisorKilled", "SupervisorFrozen", "RunIsFull", "StopWithinBudget", "StopWithFrozenSupervisor", "StopLeavesNothing", "ShutdownKeepsIntent",
	"OpenConfiguration",
	"WallsHold", "JobsAreIsolated", "SecretsAreNotShown", "SupervisorCannotBeTraced", "SupervisorIsOutOfReach",
	"ProfilesHaveUsers", "OwnedProfilesMove", "OwnedTrash", "HostileProfile", "OperatorsChownIsPutRight", "PoisonedByRoot", "NotificationIsForged", "VolumeIsSpoilt",
}

func TestContract(t *testing.T) {
	all := os.Getenv("RLMINIT_TEST_ALL") != ""
	left := map[string]bool{}
	for _, name := range byEngine {
		left[name] = true
	}
	for _, c := range contract.All {
		if !left[c.Name] && !all {
			continue
		}
		delete(left, c.Name)
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Run(t, start)
		})
	}
	for name := range left {
		t.Errorf("the contract has no part %s: take it out of the list", name)
	}
}
