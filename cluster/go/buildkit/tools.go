//go:build tools

package tools

import _ "github.com/moby/buildkit/cmd/buildkitd"
