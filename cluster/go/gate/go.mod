module swerl.dev/cluster/gate

go 1.26.0
