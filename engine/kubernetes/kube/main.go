// Command kube is every Kubernetes component in one binary: the name it is called by selects the
// component, so that five processes of a node share one text segment in the page cache.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"

	"k8s.io/client-go/rest"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// daemons maps a process name to the command that runs it.
var daemons = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-proxy":              proxy.NewProxyCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubelet":                 kubeletCommand,
}

func main() {
	name := filepath.Base(os.Args[0])
	if name == "kubectl" {
		runKubectl()
		return
	}
	command, known := daemons[name]
	if !known {
		fmt.Fprintf(os.Stderr, "kube: called as %q; link it as one of: kubectl, %s\n", name, strings.Join(names(), ", "))
		os.Exit(64)
	}
	os.Exit(cli.Run(command()))
}

func kubeletCommand() *cobra.Command {
	return kubelet.NewKubeletCommand(context.Background())
}

func runKubectl() {
	// Warnings of the API server are shown once each, as the released kubectl does.
	rest.SetDefaultWarningHandler(rest.NewWarningWriter(os.Stderr, rest.WarningWriterOptions{Deduplicate: true}))
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
}

func names() []string {
	list := make([]string, 0, len(daemons))
	for name := range daemons {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}
