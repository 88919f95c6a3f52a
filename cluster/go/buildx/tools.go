//go:build tools

package tools

import _ "github.com/docker/buildx/cmd/buildx"
