package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// maxProcesses bounds the list that tree reads; a node with more gets the signal to those listed.
const maxProcesses = 100_000

// tree returns pid and all its living descendants in ascending order, read from a proc file system. One that starts meanwhile may be missed, and
// one whose parent died before belongs to nobody any more: neither is expected of launchers, which wait for their workers.
func tree(proc string, pid int) []int {
	children := map[int][]int{}
	dir, err := os.Open(proc)
	if err != nil {
		return []int{pid}
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(maxProcesses) // what was read before an error is of use
	for _, n := range names {
		child, err := strconv.Atoi(n)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(proc, n, "stat"))
		if err != nil {
			continue // it has ended
		}
		if parent, ok := parentOf(stat); ok {
			children[parent] = append(children[parent], child)
		}
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		for _, c := range children[all[i]] {
			if !slices.Contains(all, c) { // a process id that came into use again while we read
				all = append(all, c)
			}
		}
	}
	slices.Sort(all)
	return all
}

// parentOf reads the parent's id from a line of /proc/PID/stat. The second field is the program's name in parentheses and may hold anything,
// parentheses and spaces too; the last closing one ends it, then come the state and the parent.
func parentOf(stat []byte) (int, bool) {
	i := bytes.LastIndexByte(stat, ')')
	if i < 0 {
		return 0, false
	}
	f := bytes.Fields(stat[i+1:])
	if len(f) < 2 {
		return 0, false
	}
	parent, err := strconv.Atoi(string(f[1]))
	return parent, err == nil
}
