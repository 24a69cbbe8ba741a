package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// The names of the cluster, as pods ask for them:
//
//	SERVICE.NAMESPACE.svc.cluster.local        every endpoint that is ready
//	HOST.SERVICE.NAMESPACE.svc.cluster.local   the one that has this host name
//
// There is no kube-proxy, so the name of a service leads to its endpoints even where the service
// has an address of its own. Every other name does not exist.
const (
	suffix    = ".svc.cluster.local."
	byService = "service"
	largest   = 1232 // bytes of an answer over UDP; a longer one is asked for again over TCP
	ttl       = 2    // seconds: a restarted member has another address
	patience  = 5 * time.Second
)

type names struct {
	slices cache.Indexer
}

func serveNames() error {
	kubeconfig := flag.String("kubeconfig", "", "how the API server is reached")
	listen := flag.String("listen", "", "address and port")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Discovery().V1().EndpointSlices().Informer()
	if err := informer.AddIndexers(cache.Indexers{byService: serviceOf}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil
	}

	known := &names{slices: informer.GetIndexer()}
	packets, err := net.ListenPacket("udp", *listen)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	go known.servePackets(packets)
	go known.serveConnections(listener)
	fmt.Println("answering at", *listen)
	<-ctx.Done()
	return nil
}

func serviceOf(object any) ([]string, error) {
	slice := object.(*discovery.EndpointSlice)
	return []string{slice.Labels[discovery.LabelServiceName] + "." + slice.Namespace}, nil
}

func (n *names) servePackets(packets net.PacketConn) {
	buffer := make([]byte, 4096)
	for {
		size, asker, err := packets.ReadFrom(buffer)
		if err != nil {
			return
		}
		if answer, err := n.answer(buffer[:size], largest); err == nil {
			packets.WriteTo(answer, asker)
		}
	}
}

func (n *names) serveConnections(listener net.Listener) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		go n.serveConnection(connection)
	}
}

// Over TCP every message comes after its length.
func (n *names) serveConnection(connection net.Conn) {
	defer connection.Close()
	for {
		connection.SetDeadline(time.Now().Add(patience))
		var size uint16
		if binary.Read(connection, binary.BigEndian, &size) != nil {
			return
		}
		question := make([]byte, size)
		if _, err := io.ReadFull(connection, question); err != nil {
			return
		}
		answer, err := n.answer(question, 65535)
		if err != nil {
			return
		}
		framed := binary.BigEndian.AppendUint16(nil, uint16(len(answer)))
		if _, err := connection.Write(append(framed, answer...)); err != nil {
			return
		}
	}
}

func (n *names) answer(packet []byte, limit int) ([]byte, error) {
	var parser dnsmessage.Parser
	header, err := parser.Start(packet)
	if err != nil {
		return nil, err
	}
	question, err := parser.Question()
	if err != nil {
		return nil, err
	}
	reply := dnsmessage.Message{
		Header: dnsmessage.Header{
			ID: header.ID, Response: true, Authoritative: true,
			RecursionDesired: header.RecursionDesired, RecursionAvailable: true,
		},
		Questions: []dnsmessage.Question{question},
	}
	addresses, exists := n.find(strings.ToLower(question.Name.String()))
	if !exists {
		reply.RCode = dnsmessage.RCodeNameError
	}
	if question.Type == dnsmessage.TypeA || question.Type == dnsmessage.TypeALL {
		for _, address := range addresses {
			reply.Answers = append(reply.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{
					Name: question.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET, TTL: ttl,
				},
				Body: &dnsmessage.AResource{A: address},
			})
		}
	}
	packed, err := reply.Pack()
	if err == nil && len(packed) > limit {
		reply.Answers, reply.Truncated = nil, true
		packed, err = reply.Pack()
	}
	return packed, err
}

func (n *names) find(name string) (addresses [][4]byte, exists bool) {
	inside, found := strings.CutSuffix(name, suffix)
	if !found {
		return nil, false
	}
	labels := strings.Split(inside, ".")
	host := ""
	if len(labels) == 3 {
		host, labels = labels[0], labels[1:]
	}
	if len(labels) != 2 {
		return nil, false
	}
	objects, err := n.slices.ByIndex(byService, labels[0]+"."+labels[1])
	if err != nil {
		return nil, false
	}
	exists = host == "" && len(objects) > 0
	for _, object := range objects {
		for _, endpoint := range object.(*discovery.EndpointSlice).Endpoints {
			if host != "" && (endpoint.Hostname == nil || *endpoint.Hostname != host) {
				continue
			}
			if endpoint.Conditions.Ready != nil && !*endpoint.Conditions.Ready {
				continue
			}
			for _, text := range endpoint.Addresses {
				if ip := net.ParseIP(text).To4(); ip != nil {
					addresses, exists = append(addresses, [4]byte(ip)), true
				}
			}
		}
	}
	return addresses, exists
}
