// Command probe is the whole content of the test image: it serves, dials, looks up names and exits as told.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const dialPatience = 3 * time.Second

func main() {
	if len(os.Args) < 2 {
		select {}
	}
	verb, rest := os.Args[1], os.Args[2:]
	switch verb {
	case "serve": // PORT...
		serve(rest)
	case "matrix": // NAME=KIND:ADDRESS...; prints {"NAME": "ok" or the error}
		matrix(rest)
	case "hammer": // ADDRESS SECONDS; prints attempts and successes
		hammer(rest[0], number(rest[1]))
	case "lookup": // NAME
		addresses, err := net.LookupHost(rest[0])
		finish(strings.Join(addresses, " "), err)
	case "cat": // FILE, or standard input
		cat(rest)
	case "sleep": // SECONDS
		time.Sleep(time.Duration(number(rest[0])) * time.Second)
	case "exit": // CODE
		os.Exit(number(rest[0]))
	}
}

func serve(ports []string) {
	for _, port := range ports {
		listener, err := net.Listen("tcp", ":"+port)
		if err != nil {
			finish("", err)
		}
		go func() {
			for {
				connection, err := listener.Accept()
				if err == nil {
					fmt.Fprintln(connection, "served by", os.Getenv("HOSTNAME"))
					connection.Close()
				}
			}
		}()
	}
	select {}
}

func matrix(wanted []string) {
	found := map[string]string{}
	var lock sync.Mutex
	var all sync.WaitGroup
	for _, each := range wanted {
		name, target, _ := strings.Cut(each, "=")
		kind, address, _ := strings.Cut(target, ":")
		all.Add(1)
		go func() {
			defer all.Done()
			said := "ok"
			if err := try(kind, address); err != nil {
				said = err.Error()
			}
			lock.Lock()
			found[name] = said
			lock.Unlock()
		}()
	}
	all.Wait()
	json.NewEncoder(os.Stdout).Encode(found)
}

func try(kind, address string) error {
	if strings.HasPrefix(kind, "dns") {
		resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, strings.TrimPrefix(kind, "dns-"), address)
		}}
		ctx, cancel := context.WithTimeout(context.Background(), dialPatience)
		defer cancel()
		_, err := resolver.LookupHost(ctx, "kubernetes.default.svc.cluster.local.")
		return err
	}
	if kind == "linklocal" { // of the gateway, at that port
		address = fmt.Sprintf("[%s%%eth0]:%s", gatewayLinkLocal(), address)
	}
	connection, err := net.DialTimeout("tcp", address, dialPatience)
	if err == nil {
		connection.Close()
	}
	return err
}

// gatewayLinkLocal derives the address from the gateway's hardware address (RFC 4291, appendix A).
func gatewayLinkLocal() net.IP {
	table, _ := os.ReadFile("/proc/net/arp")
	for _, line := range strings.Split(string(table), "\n")[1:] {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		if mac, err := net.ParseMAC(fields[3]); err == nil && len(mac) == 6 {
			return net.IP{0xfe, 0x80, 0, 0, 0, 0, 0, 0, mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]}
		}
	}
	return net.IPv6linklocalallnodes
}

func hammer(address string, seconds int) {
	end, attempts, successes := time.Now().Add(time.Duration(seconds)*time.Second), 0, 0
	for time.Now().Before(end) {
		connection, err := net.DialTimeout("tcp", address, time.Second)
		attempts++
		if err == nil {
			successes++
			connection.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	json.NewEncoder(os.Stdout).Encode(map[string]int{"attempts": attempts, "successes": successes})
}

func cat(files []string) {
	if len(files) == 0 {
		io.Copy(os.Stdout, bufio.NewReader(os.Stdin))
		return
	}
	content, err := os.ReadFile(files[0])
	finish(strings.TrimSpace(string(content)), err)
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil {
		finish("", err)
	}
	return value
}

func finish(said string, err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(said)
	os.Exit(0)
}
