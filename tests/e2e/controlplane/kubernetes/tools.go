//go:build tools

// Package kubernetes pins the control plane's commands: an import here keeps `go mod tidy`
// from dropping what they need. `k8s.io/kubernetes` replaces its own staging modules, so it
// can't be installed by `go install …@version`; the replaces in go.mod do that instead.
//
// Another binary is one line here, one in ../binaries.py, and a `go mod tidy`.
package kubernetes

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
)
