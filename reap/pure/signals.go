package pure

import "rlminit/reap/sys"

// signals are the names of signal(7) and what strsignal(3) says, by number.
var signals = [...][2]string{
	1: {"HUP", "Hangup"}, 2: {"INT", "Interrupt"}, 3: {"QUIT", "Quit"}, 4: {"ILL", "Illegal instruction"},
	5: {"TRAP", "Trace/breakpoint trap"}, 6: {"ABRT", "Aborted"}, 7: {"BUS", "Bus error"},
	8: {"FPE", "Floating point exception"}, 9: {"KILL", "Killed"}, 10: {"USR1", "User defined signal 1"},
	11: {"SEGV", "Segmentation fault"}, 12: {"USR2", "User defined signal 2"}, 13: {"PIPE", "Broken pipe"},
	14: {"ALRM", "Alarm clock"}, 15: {"TERM", "Terminated"}, 16: {"STKFLT", "Stack fault"}, 17: {"CHLD", "Child exited"},
	18: {"CONT", "Continued"}, 19: {"STOP", "Stopped (signal)"}, 20: {"TSTP", "Stopped"},
	21: {"TTIN", "Stopped (tty input)"}, 22: {"TTOU", "Stopped (tty output)"}, 23: {"URG", "Urgent I/O condition"},
	24: {"XCPU", "CPU time limit exceeded"}, 25: {"XFSZ", "File size limit exceeded"},
	26: {"VTALRM", "Virtual timer expired"}, 27: {"PROF", "Profiling timer expired"}, 28: {"WINCH", "Window changed"},
	29: {"IO", "I/O possible"}, 30: {"PWR", "Power failure"}, 31: {"SYS", "Bad system call"},
}

// signalNamed returns the number of TERM or SIGTERM, 0 for what is no signal.
func signalNamed(name string) int32 {
	if len(name) > 3 && name[:3] == "SIG" {
		name = name[3:]
	}
	for number, s := range signals {
		if number > 0 && s[0] == name {
			return int32(number)
		}
	}
	return 0
}

// Describe is strsignal(3).
func Describe(signal int32) string {
	if int(signal) < len(signals) {
		return signals[signal][1]
	}
	return "Real-time signal " + sys.Decimal(uint64(signal-34))
}
