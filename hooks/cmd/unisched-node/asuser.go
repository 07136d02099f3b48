package main

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
)

// asUser calls f with the file rights of a user, as far as this process may change them: as root, for users other than root. So a progress file is read
// with no more rights than the job has, whatever its user put in its place. The rights are those of one thread, and are put back before f's result is
// looked at. Where the service may not take on others (no CAP_SETUID) f runs as it is: no link is followed and only the user's own files are read in any case.
func asUser(uid, gid uint32, f func()) error {
	if os.Geteuid() != 0 || uid == 0 {
		f()
		return nil
	}
	runtime.LockOSThread()
	setFS(syscall.SYS_SETFSGID, gid)
	setFS(syscall.SYS_SETFSUID, uid)
	f()
	if !setFS(syscall.SYS_SETFSUID, 0) || !setFS(syscall.SYS_SETFSGID, 0) {
		return fmt.Errorf("the rights of user %d could not be given back", uid) // the thread stays locked, and ends with its goroutine
	}
	runtime.UnlockOSThread()
	return nil
}

// setFS sets a file system id of the calling thread. The call itself never fails; asking again tells whether it worked.
func setFS(call uintptr, id uint32) bool {
	syscall.RawSyscall(call, uintptr(id), 0, 0)
	now, _, _ := syscall.RawSyscall(call, uintptr(^uint32(0)), 0, 0)
	return uint32(now) == id
}
