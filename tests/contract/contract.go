// Package contract holds what must be true of rlminit wherever it runs, as
// tests against a box. The packages ns and docker run them all, each in its own
// kind of box; what only one kind can show is tested there.
package contract

import (
	"fmt"
	"strings"
	"testing"

	"rlminit/tests/box"
)

// New starts a box for a test, which ends with it. A box with a configuration
// answers when New returns, unless the test expects otherwise.
type New func(t testing.TB, spec box.Spec) *box.Box

// Test is one part of the contract.
type Test struct {
	Name string
	Run  func(t *testing.T, start New)
	// Root says that the test is about dropping privileges, or about another
	// user: it needs a PID 1 that is root.
	Root bool
}

// All is the whole contract.
var All = []Test{
	{Name: "MainExitCode", Run: MainExitCode},
	{Name: "MainNotRunnable", Run: MainNotRunnable},
	{Name: "MainGetsSignals", Run: MainGetsSignals},
	{Name: "PureInitReapsOrphans", Run: PureInitReapsOrphans},
	{Name: "InitAbilities", Run: InitAbilities},
	{Name: "ParentDeath", Run: ParentDeath, Root: true},

	{Name: "CrashIsRestarted", Run: CrashIsRestarted},
	{Name: "CrashLoopFails", Run: CrashLoopFails},
	{Name: "ExitClasses", Run: ExitClasses},
	{Name: "MainRouting", Run: MainRouting},
	{Name: "RouteStarts", Run: RouteStarts},
	{Name: "RouteWithoutProfiles", Run: RouteWithoutProfiles},
	{Name: "RouteAlone", Run: RouteAlone},
	{Name: "ExitOn", Run: ExitOn},
	{Name: "SupervisedMain", Run: SupervisedMain},
	{Name: "BootSteps", Run: BootSteps},
	{Name: "MainOfAnotherUser", Run: MainOfAnotherUser},
	{Name: "BootMakesEnvironment", Run: BootMakesEnvironment},
	{Name: "BootStepIsNamed", Run: BootStepIsNamed},

	{Name: "StartStopRestart", Run: StartStopRestart},
	{Name: "WaitEnds", Run: WaitEnds},
	{Name: "OneVerdict", Run: OneVerdict},
	{Name: "Sets", Run: Sets},
	{Name: "OneDefinition", Run: OneDefinition},
	{Name: "RefusedAtBoot", Run: RefusedAtBoot},
	{Name: "UpgradeIsChecked", Run: UpgradeIsChecked, Root: true},
	{Name: "DependenciesAreOrdered", Run: DependenciesAreOrdered},
	{Name: "OrderGoesThroughOneshots", Run: OrderGoesThroughOneshots},
	{Name: "AfterAndWantsAreOrdered", Run: AfterAndWantsAreOrdered},
	{Name: "Operations", Run: Operations},
	{Name: "RollingHealsTheUnhealthy", Run: RollingHealsTheUnhealthy},
	{Name: "OperationsAreRemembered", Run: OperationsAreRemembered},
	{Name: "ServiceRequiresAGateway", Run: ServiceRequiresAGateway},
	{Name: "SlotsInACircle", Run: SlotsInACircle},
	{Name: "HungServiceIsRestarted", Run: HungServiceIsRestarted},
	{Name: "StopIsCut", Run: StopIsCut},
	{Name: "ReadyAddressIsTaken", Run: ReadyAddressIsTaken},
	{Name: "ProbesAreCounted", Run: ProbesAreCounted},
	{Name: "ProbeIsItsServices", Run: ProbeIsItsServices, Root: true},
	{Name: "PassedSocket", Run: PassedSocket},
	{Name: "LogsAreKept", Run: LogsAreKept},
	{Name: "RemovedDirectories", Run: RemovedDirectories, Root: true},
	{Name: "RedactMasksEverywhere", Run: RedactMasksEverywhere},
	{Name: "SecretsInCommands", Run: SecretsInCommands},
	{Name: "LogsAreSentOn", Run: LogsAreSentOn},
	{Name: "LinesHaveOneNumber", Run: LinesHaveOneNumber},
	{Name: "ForwardIsReloaded", Run: ForwardIsReloaded},
	{Name: "RestHoldsNothing", Run: RestHoldsNothing, Root: true},
	{Name: "Signals", Run: Signals},
	{Name: "Health", Run: Health},
	{Name: "Reload", Run: Reload},
	{Name: "ReloadIsAnOperation", Run: ReloadIsAnOperation},
	{Name: "ReloadGoesOn", Run: ReloadGoesOn},
	{Name: "RepairedConfiguration", Run: RepairedConfiguration},
	{Name: "RepairedLifecycle", Run: RepairedLifecycle},
	{Name: "RepairedProfile", Run: RepairedProfile},
	{Name: "RestoredWithoutOwners", Run: RestoredWithoutOwners, Root: true},
	{Name: "StraySecretsAreNamed", Run: StraySecretsAreNamed, Root: true},
	{Name: "RepairedBetweenSupervisors", Run: RepairedBetweenSupervisors},
	{Name: "NeverReady", Run: NeverReady},
	{Name: "ServiceNamedLikeAProfile", Run: ServiceNamedLikeAProfile},
	{Name: "ServiceNamedLikeAProfileAtBoot", Run: ServiceNamedLikeAProfileAtBoot, Root: true},

	{Name: "ProfileLifecycle", Run: ProfileLifecycle},
	{Name: "ProfileMoves", Run: ProfileMoves},
	{Name: "AnotherOfTheName", Run: AnotherOfTheName},
	{Name: "ProfilesCannotBeRead", Run: ProfilesCannotBeRead},
	{Name: "ProfileIsAdopted", Run: ProfileIsAdopted},
	{Name: "StoppedProfilesRest", Run: StoppedProfilesRest},
	{Name: "ProfileTravels", Run: ProfileTravels},
	{Name: "ProfilesInQuickSuccession", Run: ProfilesInQuickSuccession},
	{Name: "PurgeLeavesNothing", Run: PurgeLeavesNothing},
	{Name: "PurgeEmptiesTheTrash", Run: PurgeEmptiesTheTrash},
	{Name: "ProfileEnvironment", Run: ProfileEnvironment},
	{Name: "ProfileSetIsWaitedFor", Run: ProfileSetIsWaitedFor},
	{Name: "SetOfOne", Run: SetOfOne},
	{Name: "JSONForms", Run: JSONForms},
	{Name: "StartsBesideHogs", Run: StartsBesideHogs},
	{Name: "SetsOfOneAreCutOff", Run: SetsOfOneAreCutOff},
	{Name: "BriefGatewaysAreSaid", Run: BriefGatewaysAreSaid},
	{Name: "MissingSegment", Run: MissingSegment, Root: true},
	{Name: "ClockGoesBackwards", Root: true, Run: ClockGoesBackwards},
	{Name: "JournalOfAnotherVolume", Root: true, Run: JournalOfAnotherVolume},
	{Name: "CreateIsExclusive", Run: CreateIsExclusive},
	{Name: "ProfileAppears", Run: ProfileAppears},
	{Name: "PortsAreStable", Run: PortsAreStable},
	{Name: "FilesAreTheServiceUsers", Run: FilesAreTheServiceUsers},

	{Name: "PlanAndApply", Run: PlanAndApply},
	{Name: "RollbackIsRolledBack", Run: RollbackIsRolledBack},
	{Name: "PlanWaits", Run: PlanWaits},
	{Name: "ApplyGivesWayToRenames", Run: ApplyGivesWayToRenames},
	{Name: "PlanRefuses", Run: PlanRefuses, Root: true},
	{Name: "ApplyIsRolledBack", Run: ApplyIsRolledBack},
	{Name: "ApplyGivesWay", Run: ApplyGivesWay},
	{Name: "ApplySurvives", Run: ApplySurvives},
	{Name: "ApplyIsKilled", Run: ApplyIsKilled},
	{Name: "ApplyIsAllowed", Run: ApplyIsAllowed, Root: true},
	{Name: "ApplyConfiguration", Run: ApplyConfiguration, Root: true},
	{Name: "ConfigurationSurvives", Run: ConfigurationSurvives, Root: true},
	{Name: "PlanExample", Run: PlanExample},
	{Name: "PlanCountsPorts", Run: PlanCountsPorts},
	{Name: "Hints", Run: Hints},
	{Name: "DeclaredSecrets", Run: DeclaredSecrets},
	{Name: "SecretsAreExact", Run: SecretsAreExact},

	{Name: "BootSurvivesItsSupervisor", Run: BootSurvivesItsSupervisor},
	{Name: "IntentSurvivesStop", Run: IntentSurvivesStop},
	{Name: "IntentSurvivesKill", Run: IntentSurvivesKill},
	{Name: "BootIsRecorded", Run: BootIsRecorded},
	{Name: "StateIsWhatIsSeen", Run: StateIsWhatIsSeen},

	{Name: "EveryProcessIsConfined", Run: EveryProcessIsConfined, Root: true},
	{Name: "LimitsAreInForce", Run: LimitsAreInForce},
	{Name: "StdoutCanBeOpened", Run: StdoutCanBeOpened},
	{Name: "AccessIsDecidedByUid", Run: AccessIsDecidedByUid, Root: true},
	{Name: "GatewayCannotControl", Run: GatewayCannotControl, Root: true},
	{Name: "LevelsOfControl", Run: LevelsOfControl},
	{Name: "ExecIsTheService", Run: ExecIsTheService, Root: true},
	{Name: "TagsRunOut", Run: TagsRunOut, Root: true},
	{Name: "StatusIsForged", Run: StatusIsForged, Root: true},

	{Name: "RunEnds", Run: RunEnds},
	{Name: "ArgumentsAreMasked", Run: ArgumentsAreMasked},
	{Name: "ToolsGetWhatTheyExpect", Run: ToolsGetWhatTheyExpect},
	{Name: "GuardsAreSettable", Run: GuardsAreSettable},
	{Name: "NeighboursOfAHog", Run: NeighboursOfAHog},
	{Name: "LimitsWithoutACgroup", Run: LimitsWithoutACgroup},
	{Name: "DeadlineEndsAll", Run: DeadlineEndsAll},
	{Name: "LeftBehindIsEnded", Run: LeftBehindIsEnded},
	{Name: "RunSurvivesItsSupervisor", Run: RunSurvivesItsSupervisor},
	{Name: "JobsAreCancelled", Run: JobsAreCancelled},
	{Name: "FilesAreWrittenAndUndone", Run: FilesAreWrittenAndUndone},
	{Name: "UndoFollowsItsProfile", Run: UndoFollowsItsProfile},
	{Name: "Sessions", Run: Sessions},
	{Name: "SessionsNeedTheVolume", Run: SessionsNeedTheVolume},
	{Name: "Hooks", Run: Hooks},
	{Name: "PortIsTaken", Run: PortIsTaken},
	{Name: "VerbInPlace", Run: VerbInPlace},
	{Name: "NoUser", Run: NoUser, Root: true},
	{Name: "HooksOnHealth", Run: HooksOnHealth},
	{Name: "HooksAreToldOnce", Run: HooksAreToldOnce},
	{Name: "HooksHaveTheirLane", Run: HooksHaveTheirLane},
	{Name: "HooksAreTried", Run: HooksAreTried},
	{Name: "JobFailedHooks", Run: JobFailedHooks},
	{Name: "Thresholds", Run: Thresholds},
	{Name: "ThresholdsAreReloaded", Run: ThresholdsAreReloaded},
	{Name: "ThresholdsWithoutAVolume", Run: ThresholdsWithoutAVolume},
	{Name: "JobsInCrowds", Run: JobsInCrowds},
	{Name: "StdinThatMayBeSilent", Run: StdinThatMayBeSilent},
	{Name: "JobsAreBounded", Run: JobsAreBounded},
	{Name: "ProfileGoesWithItsJobs", Run: ProfileGoesWithItsJobs},
	{Name: "JobsAreRetried", Run: JobsAreRetried},
	{Name: "Schedules", Run: Schedules},
	{Name: "SchedulesAreLogged", Run: SchedulesAreLogged},
	{Name: "Kinds", Run: Kinds, Root: true},
	{Name: "OwnDependencies", Run: OwnDependencies},
	{Name: "ManyAreSet", Run: ManyAreSet, Root: true},
	{Name: "SchedulesBeside", Run: SchedulesBeside},
	{Name: "AppliedInOrder", Run: AppliedInOrder, Root: true},
	{Name: "SetsLeaveWhatTheyCannotRead", Run: SetsLeaveWhatTheyCannotRead, Root: true},
	{Name: "AnswersAreDescribed", Run: AnswersAreDescribed, Root: true},
	{Name: "SetsAreCutOff", Run: SetsAreCutOff, Root: true},

	{Name: "ServiceDirectoryGoesAway", Run: ServiceDirectoryGoesAway, Root: true},
	{Name: "SupervisorKilled", Run: SupervisorKilled},
	{Name: "EveryCallerIsAnswered", Run: EveryCallerIsAnswered},
	{Name: "RollingStopLeavesTheRest", Run: RollingStopLeavesTheRest},
	{Name: "Deadlines", Run: Deadlines, Root: true},
	{Name: "ManyRequestsAtOnce", Run: ManyRequestsAtOnce, Root: true},
	{Name: "ClaimedAlone", Run: ClaimedAlone, Root: true},
	{Name: "SupervisorKilledAgainAndAgain", Run: SupervisorKilledAgainAndAgain},
	{Name: "RunIsFull", Run: RunIsFull, Root: true},
	{Name: "FalseCopies", Run: FalseCopies, Root: true},
	{Name: "SlotGoneMeanwhile", Run: SlotGoneMeanwhile, Root: true},
	{Name: "HostileService", Run: HostileService, Root: true},
	{Name: "SupervisorTellsWhere", Run: SupervisorTellsWhere},
	{Name: "SupervisorFrozen", Run: SupervisorFrozen},
	{Name: "StopWithinBudget", Run: StopWithinBudget},
	{Name: "StopWithFrozenSupervisor", Run: StopWithFrozenSupervisor},
	{Name: "StopWithKilledSupervisor", Run: StopWithKilledSupervisor},
	{Name: "StopLeavesNothing", Run: StopLeavesNothing, Root: true},
	{Name: "ShutdownKeepsIntent", Run: ShutdownKeepsIntent},

	{Name: "BadNames", Run: BadNames},
	{Name: "BrokenConfiguration", Run: BrokenConfiguration},
	{Name: "OpenConfiguration", Run: OpenConfiguration, Root: true},
	{Name: "BrokenProfile", Run: BrokenProfile},
	{Name: "BrokenState", Run: BrokenState},
	{Name: "LinkInPlaceOfProfile", Run: LinkInPlaceOfProfile},
	{Name: "BrokenServiceDirectory", Run: BrokenServiceDirectory},
	{Name: "HugeRequest", Run: HugeRequest},

	{Name: "WallsHold", Run: WallsHold},
	{Name: "TemporaryFilesAreOnesOwn", Run: TemporaryFilesAreOnesOwn},
	{Name: "JobsAreIsolated", Run: JobsAreIsolated},
	{Name: "SecretsAreNotShown", Run: SecretsAreNotShown},
	{Name: "SecretsGoWithTheirProfile", Run: SecretsGoWithTheirProfile},
	{Name: "SupervisorCannotBeTraced", Run: SupervisorCannotBeTraced, Root: true},
	{Name: "SupervisorIsOutOfReach", Run: SupervisorIsOutOfReach, Root: true},
	{Name: "ProfilesHaveUsers", Run: ProfilesHaveUsers, Root: true},
	{Name: "RefusedDeletion", Run: RefusedDeletion},
	{Name: "CutOffHandOver", Run: CutOffHandOver, Root: true},
	{Name: "PoisonedByRoot", Run: PoisonedByRoot, Root: true},
	{Name: "FileHelperStops", Run: FileHelperStops, Root: true},
	{Name: "OwnedProfilesMove", Run: OwnedProfilesMove, Root: true},
	{Name: "OwnedTrash", Run: OwnedTrash, Root: true},
	{Name: "OwnedTrashWithout", Run: OwnedTrashWithout, Root: true},
	{Name: "ManyOwnedProfiles", Run: ManyOwnedProfiles, Root: true},
	{Name: "HostileProfile", Run: HostileProfile, Root: true},
	{Name: "ProfileUsersRunOut", Run: ProfileUsersRunOut, Root: true},
	{Name: "OperatorsChownIsPutRight", Run: OperatorsChownIsPutRight, Root: true},
	{Name: "SlotIsSpoilt", Run: SlotIsSpoilt},
	{Name: "SlotIsNoWayToSecrets", Run: SlotIsNoWayToSecrets},
	{Name: "PrivilegedSlotIsSpoilt", Run: PrivilegedSlotIsSpoilt, Root: true},
	{Name: "NotificationIsForged", Run: NotificationIsForged, Root: true},
	{Name: "NotificationFlood", Run: NotificationFlood, Root: true},
	{Name: "StoredDescriptorsFlood", Run: StoredDescriptorsFlood},
	{Name: "VolumeIsSpoilt", Run: VolumeIsSpoilt},
	{Name: "ControlSocketIsCrowded", Run: ControlSocketIsCrowded, Root: true},
}

// Config is a configuration for gateways that restart soon, with more of it
// appended: services, or other top-level keys.
func Config(more ...string) string {
	return `version: 1
user: "1000:1000"
stop_timeout: 8s
gateway:
  command: [gateway, --profile, "${PROFILE}", --port, "${PORT}"]
  ready: {notify: true, timeout: 20s}
  restart: {delay: 50ms, max_delay: 1s, limit: 100, window: 60s}
  stop: {timeout: 3s}
` + strings.Join(more, "")
}

// Services is a configuration of services, each a line of YAML: `name: {…}`.
func Services(lines ...string) string {
	return Config("services:\n  " + strings.Join(lines, "\n  ") + "\n")
}

// bash is a service's command: a script, as one argument.
func bash(script string) string {
	return fmt.Sprintf(`command: [bash, -c, %q]`, script)
}
