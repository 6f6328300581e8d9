// Command coredns is CoreDNS with the plugins that a cluster's Corefile names, and no others.
package main

import (
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
	_ "github.com/coredns/coredns/plugin/template"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
)

// Order matters to CoreDNS: it is the order in which the plugins see a query.
func init() {
	dnsserver.Directives = []string{
		"reload", "health", "ready", "prometheus", "errors", "log", "cache",
		"loadbalance", "template", "hosts", "kubernetes", "loop", "forward",
	}
}

func main() {
	coremain.Run()
}
