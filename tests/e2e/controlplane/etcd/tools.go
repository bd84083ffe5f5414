//go:build tools

// Package etcd pins the etcd server that the control plane under test stores its objects in.
// It is a module of its own because etcd and Kubernetes want different versions of the same
// libraries.
package etcd

import (
	_ "go.etcd.io/etcd/server/v3"
)
