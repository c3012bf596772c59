package sys

// String returns what strerror(3) says, for the errors that a spawn meets.
func (e Errno) String() string {
	for _, known := range texts {
		if known.errno == e {
			return known.text
		}
	}
	return "error " + Decimal(e)
}

var texts = [...]struct {
	errno Errno
	text  string
}{
	{EPERM, "operation not permitted"},
	{ENOENT, "no such file or directory"},
	{ESRCH, "no such process"},
	{EINTR, "interrupted system call"},
	{5, "input/output error"},
	{ENXIO, "no such device or address"},
	{7, "argument list too long"},
	{ENOEXEC, "exec format error"},
	{EBADF, "bad file descriptor"},
	{ECHILD, "no child processes"},
	{EAGAIN, "resource temporarily unavailable"},
	{ENOMEM, "cannot allocate memory"},
	{EACCES, "permission denied"},
	{EFAULT, "bad address"},
	{ENODEV, "no such device"},
	{ENOTDIR, "not a directory"},
	{EISDIR, "is a directory"},
	{EINVAL, "invalid argument"},
	{EMFILE, "too many open files"},
	{ENOTTY, "inappropriate ioctl for device"},
	{26, "text file busy"},
	{36, "file name too long"},
	{ENOSYS, "function not implemented"},
	{ELOOP, "too many levels of symbolic links"},
	{ETIME, "timer expired"},
	{ETIMEDOUT, "connection timed out"},
	{ESTALE, "stale file handle"},
}

// Decimal returns a number as text.
func Decimal[N ~int | ~int32 | ~int64 | ~uint32 | ~uint64 | ~uintptr](n N) string {
	var digits [20]byte
	i := len(digits)
	for {
		i--
		digits[i] = '0' + byte(n%10)
		n /= 10
		if n == 0 {
			return string(digits[i:])
		}
	}
}
