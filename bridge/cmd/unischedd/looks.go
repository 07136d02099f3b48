package main

import (
	"unisched/bridge"
	"unisched/bridge/nodes"
)

// looks hands the loop what the nodes told last of their GPUs.
func looks(l *nodes.Listener) bridge.GPULooks {
	return func() []bridge.GPULook {
		told := l.GPUs()
		out := make([]bridge.GPULook, len(told))
		for i, n := range told {
			out[i] = bridge.GPULook{Node: n.Node, At: n.At, Report: n.Report}
		}
		return out
	}
}
