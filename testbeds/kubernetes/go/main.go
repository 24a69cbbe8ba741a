// One program for every process of the test bed; its first argument says which.
// One link and one file on disk instead of eleven, and the libraries they share are compiled once.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// Each is made only when it is asked for: making one registers flags that another wants as well.
var programs = map[string]func() error{
	"etcd":               func() error { etcdmain.Main(os.Args); return nil },
	"apiserver":          command(apiserver.NewAPIServerCommand),
	"controller-manager": command(manager.NewControllerManagerCommand),
	"scheduler":          command(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kubelet": command(func() *cobra.Command {
		return kubelet.NewKubeletCommand(context.Background())
	}),
	"kubectl":             command(kubectl.NewDefaultKubectlCommand),
	"volcano-scheduler":   alone(volcanoScheduler),
	"volcano-controllers": alone(volcanoControllers),
	"volcano-admission":   alone(volcanoAdmission),
	"kwok":                alone(fakeNodes),
	"dns":                 alone(serveNames),
	"certificates":        alone(writeCertificates),
}

func command(make func() *cobra.Command) func() error {
	return func() error {
		os.Exit(cli.Run(make()))
		return nil
	}
}

// Packages of the others have put flags of theirs where this one looks for its own.
func alone(run func() error) func() error {
	return func() error {
		flag.CommandLine = flag.NewFlagSet(os.Args[0], flag.ExitOnError)
		pflag.CommandLine = pflag.NewFlagSet(os.Args[0], pflag.ExitOnError)
		return run()
	}
}

func main() {
	if len(os.Args) < 2 || programs[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "the first argument names one of the programs in main.go")
		os.Exit(2)
	}
	os.Args = os.Args[1:]
	if err := programs[os.Args[0]](); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[0], err)
		os.Exit(1)
	}
}
