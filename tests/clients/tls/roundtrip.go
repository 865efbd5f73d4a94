// roundtrip URL AUTHORITY [CERTIFICATE]: one confirmed message there and back over TLS, with the broker verified. With
// a certificate (and its key, in the same file) the client logs in with EXTERNAL.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"log"
	"os"

	amqp "github.com/rabbitmq/amqp091-go"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	authority, err := os.ReadFile(os.Args[2])
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	config := amqp.Config{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}}
	if len(os.Args) > 3 {
		certificate, err := tls.LoadX509KeyPair(os.Args[3], os.Args[3])
		check(err)
		config.TLSClientConfig.Certificates = []tls.Certificate{certificate}
		config.SASL = []amqp.Authentication{&amqp.ExternalAuth{}}
	}
	connection, err := amqp.DialConfig(os.Args[1], config)
	check(err)
	channel, err := connection.Channel()
	check(err)
	queue, err := channel.QueueDeclare("", false, false, true, false, nil)
	check(err)
	check(channel.Confirm(false))
	confirms := channel.NotifyPublish(make(chan amqp.Confirmation, 1))
	body := make([]byte, 300000)
	body[299999] = 42
	check(channel.Publish("", queue.Name, false, false, amqp.Publishing{Body: body}))
	if confirmed := <-confirms; !confirmed.Ack {
		log.Fatal("not confirmed")
	}
	got, there, err := channel.Get(queue.Name, true)
	check(err)
	if !there || !bytes.Equal(got.Body, body) {
		log.Fatal("another body")
	}
	check(connection.Close())
}
