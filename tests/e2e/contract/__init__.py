"""What both API servers promise: every test here passes on the real kube-apiserver and on the one in memory."""
