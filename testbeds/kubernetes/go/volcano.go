package main

import (
	"runtime"
	"time"

	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	componentoptions "k8s.io/component-base/config/options"
	"k8s.io/klog/v2"
	controllers "volcano.sh/volcano/cmd/controller-manager/app"
	controllersoptions "volcano.sh/volcano/cmd/controller-manager/app/options"
	volcano "volcano.sh/volcano/cmd/scheduler/app"
	volcanooptions "volcano.sh/volcano/cmd/scheduler/app/options"
	admission "volcano.sh/volcano/cmd/webhook-manager/app"
	admissionoptions "volcano.sh/volcano/cmd/webhook-manager/app/options"
	"volcano.sh/volcano/pkg/controllers/framework"
	"volcano.sh/volcano/pkg/util"

	// What they are made of registers itself.
	_ "volcano.sh/volcano/pkg/controllers/cronjob"
	_ "volcano.sh/volcano/pkg/controllers/garbagecollector"
	_ "volcano.sh/volcano/pkg/controllers/hypernode"
	_ "volcano.sh/volcano/pkg/controllers/job"
	_ "volcano.sh/volcano/pkg/controllers/jobflow"
	_ "volcano.sh/volcano/pkg/controllers/jobtemplate"
	_ "volcano.sh/volcano/pkg/controllers/podgroup"
	_ "volcano.sh/volcano/pkg/controllers/queue"
	_ "volcano.sh/volcano/pkg/scheduler/actions"
	_ "volcano.sh/volcano/pkg/scheduler/plugins"
	_ "volcano.sh/volcano/pkg/webhooks/admission/cronjobs/validate"
	_ "volcano.sh/volcano/pkg/webhooks/admission/hypernodes/validate"
	_ "volcano.sh/volcano/pkg/webhooks/admission/jobflows/validate"
	_ "volcano.sh/volcano/pkg/webhooks/admission/jobs/mutate"
	_ "volcano.sh/volcano/pkg/webhooks/admission/jobs/validate"
	_ "volcano.sh/volcano/pkg/webhooks/admission/podgroups/mutate"
	_ "volcano.sh/volcano/pkg/webhooks/admission/podgroups/validate"
	_ "volcano.sh/volcano/pkg/webhooks/admission/pods/mutate"
	_ "volcano.sh/volcano/pkg/webhooks/admission/pods/validate"
	_ "volcano.sh/volcano/pkg/webhooks/admission/queues/mutate"
	_ "volcano.sh/volcano/pkg/webhooks/admission/queues/validate"
)

func volcanoScheduler() error {
	options := volcanooptions.NewServerOption()
	options.AddFlags(pflag.CommandLine)
	util.LeaderElectionDefault(&options.LeaderElection)
	options.LeaderElection.ResourceName = "volcano"
	componentoptions.BindLeaderElectionFlags(&options.LeaderElection, pflag.CommandLine)
	options.RegisterOptions() // plug-ins read them from there
	parseFlags()
	defer klog.Flush()
	if err := options.CheckOptionOrDie(); err != nil {
		return err
	}
	return volcano.Run(options)
}

func volcanoControllers() error {
	known := []string{}
	framework.ForeachController(func(one framework.Controller) { known = append(known, one.Name()) })
	options := controllersoptions.NewServerOption()
	options.AddFlags(pflag.CommandLine, known)
	util.LeaderElectionDefault(&options.LeaderElection)
	options.LeaderElection.ResourceName = "vc-controller-manager"
	componentoptions.BindLeaderElectionFlags(&options.LeaderElection, pflag.CommandLine)
	parseFlags()
	defer klog.Flush()
	if err := options.CheckOptionOrDie(); err != nil {
		return err
	}
	return controllers.Run(options)
}

func volcanoAdmission() error {
	config := admissionoptions.NewConfig()
	config.AddFlags(pflag.CommandLine)
	parseFlags()
	defer klog.Flush()
	if err := config.CheckPortOrDie(); err != nil {
		return err
	}
	if err := config.ParseCAFiles(nil); err != nil {
		return err
	}
	return admission.Run(config)
}

func parseFlags() {
	klog.InitFlags(nil)
	utilfeature.DefaultMutableFeatureGate.AddFlag(pflag.CommandLine)
	cliflag.InitFlags()
	runtime.GOMAXPROCS(runtime.NumCPU())
	klog.StartFlushDaemon(time.Second)
}
