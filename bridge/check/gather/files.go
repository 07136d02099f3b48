package gather

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"unisched/bridge/check"
	"unisched/slurm"
)

// Bounds on what is read of files that others write.
const (
	maxText     = 1 << 20
	maxLines    = 100_000
	maxIncludes = 32
)

// head reads the beginning of a file.
func head(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxText))
	return string(b), err
}

func ownerOf(info fs.FileInfo) uint32 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Uid
	}
	return 0
}

// The file systems that are named; those whose files are gone after a reboot.
var (
	fsNames = map[int64]string{0x01021994: "tmpfs", 0x858458f6: "ramfs", 0xef53: "ext4", 0x58465342: "xfs", 0x9123683e: "btrfs", 0x794c7630: "overlayfs",
		0x6969: "nfs", 0x2fc12fc1: "zfs", 0x0bd00bd0: "lustre", 0x47504653: "gpfs"}
	volatileFS = map[string]bool{"tmpfs": true, "ramfs": true}
)

// dir looks at a folder and the file system that it is on.
func dir(path string) (check.Dir, error) {
	d := check.Dir{Path: path, FreeFile: -1}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err != nil {
		return d, err
	}
	d.Exists, d.IsDir, d.Mode, d.UID = true, info.IsDir(), uint32(info.Mode().Perm()), ownerOf(info)
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return d, fmt.Errorf("file system of %s: %w", path, err)
	}
	magic := int64(s.Type) & 0xffffffff
	if d.FS = fsNames[magic]; d.FS == "" {
		d.FS = fmt.Sprintf("a file system (%#x)", magic)
	}
	d.Volatile = volatileFS[d.FS]
	d.FreeMB = int64(s.Bavail) * s.Bsize >> 20
	if s.Files > 0 { // btrfs and the like count none
		d.FreeFile = int64(s.Ffree)
	}
	return d, nil
}

// slurmFiles finds slurm.conf on this host, for the lines that findings point at, and the files that it names.
func (l Look) slurmFiles(f *check.Facts) {
	path, root := l.SlurmConf, ""
	says := f.Config.V.Text("SLURM_CONF")
	if path == "" {
		if path = says; path == "" {
			path = "/etc/slurm/slurm.conf"
		}
	} else if says != "" {
		root, _ = strings.CutSuffix(path, says) // a cluster that lives in a folder of this host
		if root == path {
			root = ""
		}
	}
	lines, err := slurmLines(path)
	if err != nil {
		if l.SlurmConf != "" && f.Config.Err != nil {
			f.Config.Err = err
		}
		return
	}
	if f.Config.Err == nil && l.SlurmConf == "" && !strings.EqualFold(value(lines["clustername"].Text), f.Config.V.Text("ClusterName")) {
		return // another cluster's
	}
	f.Lines = lines
	if f.Config.Err != nil {
		values := map[string]string{}
		for key, line := range lines {
			if !strings.Contains(key, "=") {
				values[key] = value(line.Text)
			}
		}
		f.Config = check.See(slurm.NewConfig(path, values), nil)
	}
	l.named(f, root, filepath.Dir(path))
}

// named looks at the files that slurm.conf names, and those beside it.
func (l Look) named(f *check.Facts, root, etc string) {
	if text, err := head(filepath.Join(etc, "gres.conf")); err == nil {
		f.GresConf = check.See(text, nil)
	}
	if text, err := head(filepath.Join(etc, "job_submit.lua")); err == nil {
		f.Lua = check.See(text, nil)
	}
	for _, p := range f.Config.V.List("AuthAltParameters") {
		if key, ok := strings.CutPrefix(p, "jwt_key="); ok {
			if k, err := file(root+key, false); err == nil {
				f.JWTKey = check.See(k, nil)
			}
		}
	}
	f.Scripts = map[string]check.File{}
	for _, key := range []string{"Prolog", "Epilog", "TaskProlog"} {
		for _, p := range f.Config.V.List(key) {
			if s, err := file(root+p, true); err == nil {
				f.Scripts[p] = s
			}
		}
	}
}

// value is what stands behind the first "=" of a line.
func value(line string) string {
	_, v, _ := strings.Cut(line, "=")
	return strings.TrimSpace(v)
}

// slurmLines reads slurm.conf and what it includes: the last line of each key, in lower case; partitions as "partitionname=gpu".
func slurmLines(path string) (map[string]check.Line, error) {
	out := map[string]check.Line{}
	files := 0
	var read func(path string) error
	read = func(path string) error {
		if files++; files > maxIncludes {
			return fmt.Errorf("slurm.conf includes more than %d files", maxIncludes)
		}
		text, err := head(path)
		if err != nil {
			return err
		}
		n := 0
		for line := range strings.Lines(text) {
			if n++; n > maxLines {
				break
			}
			line, _, _ = strings.Cut(line, "#")
			line = strings.TrimSpace(line)
			if more, ok := strings.CutPrefix(strings.ToLower(line), "include "); ok {
				name := strings.TrimSpace(line[len(line)-len(more):])
				if !filepath.IsAbs(name) {
					name = filepath.Join(filepath.Dir(path), name)
				}
				if err := read(name); err != nil {
					continue // the controller would not have started with it: it is at another place
				}
				continue
			}
			key, rest, ok := strings.Cut(line, "=")
			if !ok {
				continue
			}
			key = strings.ToLower(strings.TrimSpace(key))
			if key == "partitionname" || key == "nodename" {
				name, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
				key += "=" + strings.ToLower(name)
			}
			out[key] = check.Line{File: path, N: n, Text: line}
		}
		return nil
	}
	return out, read(path)
}
