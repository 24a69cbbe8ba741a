package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const validity = 10 * 365 * 24 * time.Hour

type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// DIR/ca.crt, and NAME.crt with NAME.key for a server at these addresses and for each client.
func writeCertificates() error {
	dir := flag.String("dir", "", "where they are written")
	addresses := flag.String("addresses", "", "where the servers are reached, by commas")
	clients := flag.String("clients", "", "NAME or NAME:GROUP, by commas")
	flag.Parse()

	root := &authority{}
	if err := root.write(*dir, "ca", &x509.Certificate{
		Subject:               pkix.Name{CommonName: "test bed"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}); err != nil {
		return err
	}
	server := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "server"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost"},
	}
	for _, word := range strings.Split(*addresses, ",") {
		if ip := net.ParseIP(word); ip != nil {
			server.IPAddresses = append(server.IPAddresses, ip)
		} else {
			server.DNSNames = append(server.DNSNames, word)
		}
	}
	if err := root.write(*dir, "server", server); err != nil {
		return err
	}
	for _, word := range strings.Split(*clients, ",") {
		name, group, grouped := strings.Cut(word, ":")
		subject := pkix.Name{CommonName: name}
		if grouped {
			subject.Organization = []string{group}
		}
		if err := root.write(*dir, name, &x509.Certificate{
			Subject:     subject,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}); err != nil {
			return err
		}
	}
	return nil
}

// The first that is written signs itself, and from then on all others.
func (a *authority) write(dir, name string, made *x509.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if made.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		return err
	}
	made.NotBefore = time.Now().Add(-time.Hour) // clocks that are a little behind
	made.NotAfter = time.Now().Add(validity)
	if a.key == nil {
		a.certificate, a.key = made, key
	}
	if made.KeyUsage == 0 {
		made.KeyUsage = x509.KeyUsageDigitalSignature
	}
	der, err := x509.CreateCertificate(rand.Reader, made, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	if err := writePEM(filepath.Join(dir, name+".key"), "EC PRIVATE KEY", private); err != nil {
		return err
	}
	return writePEM(filepath.Join(dir, name+".crt"), "CERTIFICATE", der)
}

func writePEM(path, kind string, content []byte) error {
	block := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content})
	return os.WriteFile(path, block, 0o600)
}
