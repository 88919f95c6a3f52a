//go:build tools

package tools

import _ "github.com/ray-project/kuberay/ray-operator"
