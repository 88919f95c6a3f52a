// Reads dashboards with Grafana's own types: a field that is unknown, missing or of the wrong kind is an error.
package main

import (
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

func main() {
	runtime := cog.NewRuntime()
	runtime.RegisterPanelcfgVariant(stat.VariantConfig())
	runtime.RegisterPanelcfgVariant(timeseries.VariantConfig())
	runtime.RegisterDataqueryVariant(prometheus.VariantConfig())
	failed := false
	for _, path := range os.Args[1:] {
		if err := check(path); err != nil {
			failed = true
			fmt.Printf("%s: %v\n", path, err)
		}
	}
	if failed {
		os.Exit(1)
	}
}

func check(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var read dashboard.Dashboard
	if err := problem(read.UnmarshalJSONStrict(content)); err != nil {
		return err
	}
	return problem(read.Validate())
}

// The library returns a list of errors that is not nil where there are none.
func problem(err error) error {
	if err == nil || err.Error() == "" {
		return nil
	}
	return err
}
