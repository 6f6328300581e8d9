// Command agents is the small Kubernetes components in one binary: apart from the large ones, they
// need a third less memory, because what a program only links it still initializes.
package main

import (
	"github.com/spf13/cobra"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"liqo.io/engine/kubernetes/face"
)

func main() {
	face.Run(map[string]func() *cobra.Command{
		"kube-proxy":     proxy.NewProxyCommand,
		"kube-scheduler": func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	})
}
