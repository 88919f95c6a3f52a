//go:build tools

package tools

import _ "k8s.io/kubernetes/cmd/kube-apiserver"
import _ "k8s.io/kubernetes/cmd/kube-controller-manager"
import _ "k8s.io/kubernetes/cmd/kube-scheduler"
import _ "k8s.io/kubernetes/cmd/kubelet"
import _ "k8s.io/kubernetes/cmd/kube-proxy"
import _ "k8s.io/kubernetes/cmd/kubectl"
import _ "go.etcd.io/etcd/server/v3"
