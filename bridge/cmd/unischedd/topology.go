package main

import (
	"fmt"
	"io"
	"os"

	"unisched/slurm/topology"
)

// maxTopologyBytes bounds the file that describes the network.
const maxTopologyBytes = 8 << 20

// readTopology reads the file that describes the network, nothing when there is none. It is Slurm's file or its admin's: a fault in it is told, and keeps
// nobody from starting.
func readTopology(name string) (topology.Topology, error) {
	if name == "" {
		return topology.Topology{}, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return topology.Topology{}, fmt.Errorf("topology: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxTopologyBytes+1))
	if err != nil {
		return topology.Topology{}, fmt.Errorf("topology %s: %w", name, err)
	}
	t, err := topology.Parse(string(text))
	if err != nil {
		return topology.Topology{}, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}
