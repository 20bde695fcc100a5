// Creates a topic, sends messages to it at once, receives them again and prints them: NAMESRV BROKER TOPIC BODY ...
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func main() {
	topic, bodies, ctx := os.Args[3], os.Args[4:], context.Background()
	servers := primitive.NewPassthroughResolver(os.Args[1:2])
	creator, err := admin.NewAdmin(admin.WithResolver(servers))
	check(err)
	sender, err := rocketmq.NewProducer(producer.WithNsResolver(servers), producer.WithRetry(0))
	check(err)
	check(sender.Start())
	check(creator.CreateTopic(ctx, admin.WithTopicCreate(topic), admin.WithBrokerAddrCreate(os.Args[2])))
	for _, body := range bodies {
		_, err := sender.SendSync(ctx, primitive.NewMessage(topic, []byte(body)))
		check(err)
	}
	received := make(chan string)
	receiver, err := rocketmq.NewPushConsumer(consumer.WithNsResolver(servers), consumer.WithGroupName("group-"+topic),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	check(err)
	check(receiver.Subscribe(topic, consumer.MessageSelector{},
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, message := range messages {
				received <- string(message.Body)
			}
			return consumer.ConsumeSuccess, nil
		}))
	check(receiver.Start())
	for range bodies {
		fmt.Println(<-received)
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
