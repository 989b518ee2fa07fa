// net/http, client and server, in its default settings.
package main

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

type transaction struct {
	Status           string `json:"status"`
	GatewayReference string `json:"gatewayReference"`
}

func main() {
	api, key := os.Getenv("API_URL")+"/gateway/mmo/v2", os.Getenv("API_KEY")
	callbacks := make(chan transaction, 1)
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("X-API-KEY")), []byte(key)) != 1 {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var result transaction
		json.NewDecoder(r.Body).Decode(&result)
		w.WriteHeader(http.StatusNoContent)
		callbacks <- result
	})
	go http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil)
	created, status := ask(key, "POST", api+"/direct/payin/mpesa_ke", []byte(os.Getenv("BODY")))
	var callback transaction
	select {
	case callback = <-callbacks:
	case <-time.After(30 * time.Second):
	}
	found, _ := ask(key, "GET", api+"/status/"+created.GatewayReference, nil)
	fmt.Printf("{\"created\":%d,\"callback\":%q,\"found\":%q}\n", status, callback.Status, found.Status)
	io.ReadAll(os.Stdin)
}

func ask(key, method, url string, body []byte) (transaction, int) {
	request, _ := http.NewRequest(method, url, bytes.NewReader(body))
	request.Header.Set("X-Api-Key", key)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	var answer transaction
	json.NewDecoder(response.Body).Decode(&answer)
	return answer, response.StatusCode
}
