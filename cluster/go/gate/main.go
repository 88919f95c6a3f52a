// Command gate is the last plugin of the node's CNI chain. It tells the NetworkPolicy enforcer which Pod an address was
// given to and waits until the rules that admit the Pod are in force, so that the Pod's first packet meets the final
// rules. It never fails a Pod: without the enforcer the address stays unknown, and unknown addresses are dropped.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

type config struct {
	CNIVersion string          `json:"cniVersion"`
	Socket     string          `json:"socket"`
	PrevResult json.RawMessage `json:"prevResult"`
}

type result struct {
	IPs []struct {
		Address string `json:"address"`
	} `json:"ips"`
}

type announcement struct {
	Verb      string `json:"verb"`
	Address   string `json:"address"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

const patience = 3 * time.Second

func main() {
	verb := os.Getenv("CNI_COMMAND")
	if verb == "VERSION" {
		fmt.Println(`{"cniVersion":"1.0.0","supportedVersions":["0.4.0","1.0.0"]}`)
		return
	}
	var given config
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		fmt.Printf(`{"cniVersion":"1.0.0","code":6,"msg":%q}`+"\n", "gate: configuration: "+err.Error())
		os.Exit(1)
	}
	if verb == "ADD" || verb == "DEL" {
		announce(given, strings.ToLower(verb), arguments(os.Getenv("CNI_ARGS")))
	}
	if verb == "ADD" {
		os.Stdout.Write(given.PrevResult)
	}
}

func arguments(text string) map[string]string {
	found := map[string]string{}
	for _, pair := range strings.Split(text, ";") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			found[key] = value
		}
	}
	return found
}

func announce(given config, verb string, pod map[string]string) {
	var made result
	if len(given.PrevResult) == 0 || json.Unmarshal(given.PrevResult, &made) != nil {
		return
	}
	for _, ip := range made.IPs {
		address, _, _ := strings.Cut(ip.Address, "/")
		tell(given.Socket, announcement{verb, address, pod["K8S_POD_NAMESPACE"], pod["K8S_POD_NAME"], pod["K8S_POD_UID"]})
	}
}

func tell(socket string, said announcement) {
	connection, err := net.DialTimeout("unix", socket, patience)
	if err != nil {
		return
	}
	defer connection.Close()
	connection.SetDeadline(time.Now().Add(patience))
	if json.NewEncoder(connection).Encode(said) == nil {
		bufio.NewReader(connection).ReadString('\n')
	}
}
