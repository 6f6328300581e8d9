// Package face lets one binary be several programs: the name it is called by selects the program,
// so that processes of a node share one text segment in the page cache.
package face

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // what a released component reports
	_ "k8s.io/component-base/metrics/prometheus/version"
)

// Run runs the daemon whose name this process was called by.
func Run(daemons map[string]func() *cobra.Command) {
	name := filepath.Base(os.Args[0])
	command, known := daemons[name]
	if !known {
		names := slices.Sorted(maps.Keys(daemons))
		fmt.Fprintf(os.Stderr, "called as %q; link it as one of: %s\n", name, strings.Join(names, ", "))
		os.Exit(64)
	}
	os.Exit(cli.Run(command()))
}
