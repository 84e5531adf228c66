package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Whatever is wrong is said by its name, with the right status, in OpenAI's form.
func TestRefusals(t *testing.T) {
	s := newTestServer(t, func(c *config) { c.size, c.maxBody = 64, 4000 })
	long := strings.Repeat("The sea was calm. ", 40)
	for _, c := range []struct {
		path, body  string
		status      int
		code, param string
		says        string
	}{
		{chatPath, `{`, 400, "invalid_value", "", "not JSON"},
		{chatPath, `[]`, 400, "invalid_value", "", "must be an object, not array"},
		{chatPath, `null`, 400, "invalid_value", "", "not null"},
		{chatPath, `{} {}`, 400, "invalid_value", "", "not JSON"},
		{chatPath, "{\"user\": \"\xff\"}", 400, "invalid_value", "", "UTF-8"},
		{chatPath, `{"messages": []}`, 400, "invalid_value", "model", "missing"},
		{chatPath, `{"model": "gpt-4o"}`, 404, "model_not_found", "model", "gpt-4o"},
		{chatPath, `{"model": "toy"}`, 400, "invalid_value", "messages", "at least one"},
		{chatPath, `{"model": "bert", "messages": [{"role": "user", "content": "a"}]}`, 400, "invalid_value", "model", "no chat template"},
		{chatPath, `{"model": "toy", "Temperature": 1}`, 400, "unsupported_parameter", "Temperature", "does not know"},
		{chatPath, `{"model": "toy", "frobnicate": 1}`, 400, "unsupported_parameter", "frobnicate", "does not know"},
		{chatPath, `{"model": "toy", "temperature": "hot"}`, 400, "invalid_value", "temperature", "must be a number, not string"},
		{chatPath, `{"model": "toy", "n": 1.5}`, 400, "invalid_value", "n", "an integer"},
		{chatPath, `{"model": "toy", "temperature": 2.5}`, 400, "invalid_value", "temperature", "from 0 to 2"},
		{chatPath, `{"model": "toy", "top_p": -1}`, 400, "invalid_value", "top_p", "from 0 to 1"},
		{chatPath, `{"model": "toy", "presence_penalty": 3}`, 400, "invalid_value", "presence_penalty", "from -2 to 2"},
		{chatPath, `{"model": "toy", "frequency_penalty": -3}`, 400, "invalid_value", "frequency_penalty", "from -2 to 2"},
		{chatPath, `{"model": "toy", "n": 0}`, 400, "invalid_value", "n", "from 1"},
		{chatPath, `{"model": "toy", "max_tokens": 0}`, 400, "invalid_value", "max_tokens", "at least 1"},
		{chatPath, `{"model": "toy", "max_tokens": 5, "max_completion_tokens": 5}`, 400, "invalid_value", "max_tokens", "one of them"},
		{chatPath, `{"model": "toy", "stop": [1]}`, 400, "invalid_value", "stop", "array of strings"},
		{chatPath, `{"model": "toy", "stop": ""}`, 400, "invalid_value", "stop", "empty"},
		{chatPath, `{"model": "toy", "top_logprobs": 2}`, 400, "invalid_value", "top_logprobs", "needs logprobs"},
		{chatPath, `{"model": "toy", "logprobs": true, "top_logprobs": 21}`, 400, "invalid_value", "top_logprobs", "0 to 20"},
		{chatPath, `{"model": "toy", "stream_options": {}}`, 400, "invalid_value", "stream_options", "stream only"},
		{chatPath, `{"model": "toy", "stream": true, "stream_options": {"x": 1}}`, 400, "unsupported_parameter", "stream_options.x", "does not know"},
		{chatPath, `{"model": "toy", "modalities": ["audio"]}`, 400, "unsupported_parameter", "modalities", "text"},
		{chatPath, `{"model": "toy", "service_tier": "flex"}`, 400, "unsupported_parameter", "service_tier", "tiers"},
		{chatPath, `{"model": "toy", "reasoning_effort": "low"}`, 400, "unsupported_parameter", "reasoning_effort", "chat_template_kwargs"},
		{chatPath, `{"model": "toy", "messages": [1]}`, 400, "invalid_value", "messages[0]", "messages[0] must be an object"},
		{chatPath, `{"model": "toy", "messages": [{"role": "user"}]}`, 400, "invalid_value", "messages[0].content", "missing"},
		{chatPath, `{"model": "toy", "messages": [{"role": "boss", "content": "a"}]}`, 400, "invalid_value", "messages[0].role", "boss"},
		{chatPath, `{"model": "toy", "messages": [{"role": "user", "content": "a", "x": 1}]}`, 400, "unsupported_parameter", "messages[0].x", "does not know"},
		{chatPath, `{"model": "toy", "messages": [{"role": "user", "content": [{"type": "image_url"}]}]}`, 400, "unsupported_parameter", "messages[0].content[0].type", "image_url"},
		{chatPath, `{"model": "toy", "messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": {"mood": ["<|endoftext|>"]}}`, 400, "invalid_value", "chat_template_kwargs", "control token"},
		{chatPath, `{"model": "toy", "messages": [{"role": "user", "content": "a"}], "logit_bias": {"a": 1}}`, 400, "invalid_value", "logit_bias", `"a"`},
		{chatPath, `{"model": "toy", "messages": [{"role": "user", "content": "a"}], "logit_bias": {"999999": 1}}`, 400, "invalid_value", "logit_bias", "no token"},
		{chatPath, `{"model": "toy", "messages": [{"role": "user", "content": "a"}], "logit_bias": {"5": 101}}`, 400, "invalid_value", "logit_bias", "100"},
		{chatPath, `{"model": "toy", "messages": [{"role": "user", "content": "a"}], "max_tokens": 64}`, 400, "context_length_exceeded", "", "64 tokens"},
		{chatPath, `{"model": "toy", "messages": [{"role": "user", "content": "` + long + `"}]}`, 400, "context_length_exceeded", "", "leaves none"},
		{chatPath, `{"user": "` + strings.Repeat("a", 4000) + `"}`, 413, "request_too_large", "", "4000 bytes"},
		{chatPath, `{"model": "toy", "messages": [{"role": "user", "content": "a"}], "tools": [{"type": "retrieval"}]}`, 400, "unsupported_parameter", "tools[0].type", "function"},
		{chatPath, `{"model": "toy", "messages": [{"role": "user", "content": "a"}], "tools": [{"type": "function", "function": {}}]}`, 400, "invalid_value", "tools[0].function.name", "missing"},
		{chatPath, `{"model": "toy", "messages": [{"role": "user", "content": "a"}], "tool_choice": "required"}`, 400, "invalid_value", "tool_choice", "no tools"},
		{chatPath, `{"model": "toy", "messages": [{"role": "user", "content": "a"}], "tool_choice": "maybe"}`, 400, "invalid_value", "tool_choice", "maybe"},
		{chatPath, `{"model": "toy", "functions": [{}]}`, 400, "unsupported_parameter", "functions", "obsolete"},
		{chatPath, `{"model": "toy", "messages": [{"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "a", "arguments": "{"}}]}]}`, 400, "invalid_value", "messages[0].tool_calls[0].function.arguments", "object"},
		{textPath, `{"model": "toy", "prompt": "a", "response_format": {"type": "yaml"}}`, 400, "invalid_value", "response_format.type", "yaml"},
		{textPath, `{"model": "toy", "prompt": "a", "response_format": {"type": "json_schema"}}`, 400, "invalid_value", "response_format.json_schema", "not JSON"},
		{textPath, `{"model": "toy", "prompt": "a", "response_format": {"type": "json_schema", "json_schema": {"name": "a"}}}`, 400, "invalid_value", "response_format.json_schema.schema", "missing"},
		{textPath, `{"model": "toy", "prompt": "a", "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "nothing"}}}}`, 400, "invalid_value", "response_format", "nothing"},
		{textPath, `{"model": "toy", "prompt": "a", "response_format": {"type": "json_schema", "json_schema": {"schema": {"propertyNames": {}}}}}`, 400, "invalid_value", "response_format", "propertyNames"},
		{"/v1/rerank", `{"model": "bert", "query": "a"}`, 400, "invalid_value", "documents", "0 elements"},
		{"/v1/rerank", `{"model": "bert", "query": "a", "documents": [5]}`, 400, "invalid_value", "documents[0]", "documents[0]"},
		{"/v1/rerank", `{"model": "bert", "query": "a", "documents": ["b"], "top_n": 0}`, 400, "invalid_value", "top_n", "at least 1"},

		{textPath, `{"model": "toy"}`, 400, "invalid_value", "prompt", "missing"},
		{textPath, `{"model": "toy", "prompt": []}`, 400, "invalid_value", "prompt", "0 elements"},
		{textPath, `{"model": "toy", "prompt": ["a", 5]}`, 400, "invalid_value", "prompt[1]", "string or an array of tokens"},
		{textPath, `{"model": "toy", "prompt": [[]]}`, 400, "invalid_value", "prompt[0]", "empty"},
		{textPath, `{"model": "toy", "prompt": [1, 999999]}`, 400, "invalid_value", "prompt", "999999"},
		{textPath, `{"model": "toy", "prompt": {"a": 1}}`, 400, "invalid_value", "prompt", "string"},
		{textPath, `{"model": "toy", "prompt": "a", "suffix": "b"}`, 400, "unsupported_parameter", "suffix", "middle"},
		{textPath, `{"model": "toy", "prompt": "a", "best_of": 3}`, 400, "unsupported_parameter", "best_of", "n"},
		{textPath, `{"model": "toy", "prompt": ["a", "b"], "n": 100}`, 400, "invalid_value", "n", "200"},
		{textPath, `{"model": "bert", "prompt": "a"}`, 400, "invalid_value", "model", "embeddings only"},
		{textPath, `{"model": "toy", "prompt": "a", "max_tokens": 70}`, 400, "context_length_exceeded", "", "70 in the completion"},

		{"/v1/embeddings", `{"model": "bert", "input": ""}`, 400, "invalid_value", "input", "empty"},
		{"/v1/embeddings", `{"model": "bert", "input": ["w1", [1]]}`, 400, "invalid_value", "input", "both"},
		{"/v1/embeddings", `{"model": "bert", "input": "w1", "dimensions": 3}`, 400, "unsupported_parameter", "dimensions", "shorten"},
		{"/v1/embeddings", `{"model": "bert", "input": "w1", "encoding_format": "int8"}`, 400, "invalid_value", "encoding_format", "base64"},
		{"/v1/embeddings", `{"model": "bert", "input": "` + strings.Repeat("w1 w2 ", 90) + `"}`, 400, "context_length_exceeded", "", "text 0"},
		{"/v1/nothing", `{}`, 404, "unknown_url", "", "/v1/nothing"},
	} {
		status, answer, header := s.post(c.path, c.body)
		e, _ := answer["error"].(map[string]any)
		if e == nil {
			t.Errorf("%s %s: status %d, no error", c.path, c.body, status)
			continue
		}
		param, _ := e["param"].(string)
		message := e["message"].(string)
		if status != c.status || e["code"] != c.code || param != c.param || !strings.Contains(message, c.says) {
			t.Errorf("%s %.120s: status %d, %v", c.path, c.body, status, e)
		}
		if header.Get("X-Request-Id") == "" {
			t.Errorf("%s: no X-Request-Id", c.path)
		}
	}
	response, err := http.Get(s.URL + chatPath)
	must(t, err)
	response.Body.Close()
	equal(t, "GET", response.StatusCode, 405)
}

// What changes no answer is taken.
func TestHarmlessFields(t *testing.T) {
	s := newTestServer(t, nil)
	s.ok(chatPath, `{"model": "toy", "messages": [{"role": "user", "content": "a", "name": null}, {"role": "assistant", "content": "b", "refusal": null,
		"annotations": [], "tool_calls": null}, {"role": "user", "content": "c"}], "max_tokens": 1, "user": "me", "metadata": {"a": "b"}, "store": false,
		"service_tier": "auto", "tools": [], "tool_choice": "auto", "parallel_tool_calls": true, "response_format": {"type": "text"}, "modalities": ["text"],
		"seed": null, "stop": null, "logit_bias": null, "stream_options": null, "prediction": {"type": "content", "content": "x"}, "audio": null,
		"stream": false, "prompt_cache_key": "k", "safety_identifier": "i"}`)
}

func TestKeys(t *testing.T) {
	s := newTestServer(t, func(c *config) { c.keys = keysOf("# ours\nsecret\n\n", "other, third") })
	for key, status := range map[string]int{"Bearer secret": 200, "Bearer third": 200, "Bearer wrong": 401, "Bearer ": 401, "": 401, "secret": 401, "Bearer # ours": 401} {
		for _, path := range []string{"/v1/models", "/health", "/metrics"} {
			request, err := http.NewRequest("GET", s.URL+path, nil)
			must(t, err)
			request.Header.Set("Authorization", key)
			response, err := http.DefaultClient.Do(request)
			must(t, err)
			body, err := io.ReadAll(response.Body)
			must(t, err)
			response.Body.Close()
			want := status
			if path != "/v1/models" {
				want = 200
			}
			equal(t, "status of "+path+" with "+key, response.StatusCode, want)
			equal(t, "code", strings.Contains(string(body), "invalid_api_key"), want == 401)
		}
	}
}

func TestModels(t *testing.T) {
	s := newTestServer(t, nil)
	for path, want := range map[string]int{"/v1/models": 200, "/v1/models/toy": 200, "/v1/models/none": 404, "/health": 200} {
		response, err := http.Get(s.URL + path)
		must(t, err)
		response.Body.Close()
		equal(t, path, response.StatusCode, want)
	}
}

// A full queue refuses; a client that goes frees a place.
func TestQueueFullAndCancel(t *testing.T) {
	t.Setenv("EMBER_ISA", "scalar") // slow, so that what runs is still running later
	s := newTestServer(t, func(c *config) { c.parallel, c.queue = 1, 1 })
	body := s.endless(map[string]any{"messages": said("The sea was calm."), "max_tokens": 400})
	first, leave := context.WithCancel(context.Background())
	defer leave()
	running := s.send(first, chatPath, body)
	defer running.Body.Close()
	_, err := bufio.NewReader(running.Body).ReadString('\n') // it runs
	must(t, err)
	second, leaveToo := context.WithCancel(context.Background())
	defer leaveToo()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		request, _ := http.NewRequestWithContext(second, "POST", s.URL+chatPath, strings.NewReader(jsonText(body)))
		if response, err := http.DefaultClient.Do(request); err == nil {
			response.Body.Close()
		}
	}()
	s.waitFor(`ember_requests_queued{model="toy"}`, "1")
	status, answer, header := s.post(chatPath, body)
	equal(t, "status", status, 429)
	equal(t, "code", at(answer, "error", "code"), "queue_full")
	equal(t, "retry", header.Get("Retry-After"), "1")
	// Two choices where the queue has one free place: neither stays there.
	status, _, _ = s.post(textPath, map[string]any{"model": "toy", "prompt": "a", "n": 2})
	equal(t, "status", status, 429)
	leave()
	leaveToo()
	<-gone
	s.waitFor(`ember_requests_active{model="toy"}`, "0")
	s.waitFor(`ember_requests_queued{model="toy"}`, "0")
	s.waitFor(`ember_requests_cancelled_total{model="toy"}`, "2")
	s.waitFor(`ember_http_requests_total{path="/v1/chat/completions",code="499"}`, "2")
	s.ok(chatPath, map[string]any{"model": "toy", "messages": said("a"), "max_tokens": 1})
}

func TestRequestTimeout(t *testing.T) {
	s := newTestServer(t, func(c *config) { c.requestTimeout = time.Millisecond })
	body := s.endless(map[string]any{"prompt": strings.Repeat("The sea. ", 60), "max_tokens": 200, "stream": false})
	status, answer, header := s.post(textPath, body)
	equal(t, "status", status, 504)
	equal(t, "code", at(answer, "error", "code"), "request_timeout")
	equal(t, "do not try again", header.Get("X-Should-Retry"), "false")
}

// A shutdown lets requests end that do so in time, and cancels others, whose clients get an error.
func TestShutdown(t *testing.T) {
	for name, drain := range map[string]time.Duration{"drained": time.Minute, "cancelled": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			if name == "cancelled" {
				t.Setenv("EMBER_ISA", "scalar") // slow, so that it is still running when it shall end
			}
			s := newTestServer(t, func(c *config) { c.drainTimeout = drain })
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			ctx, stop := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- s.serve(ctx, listener) }()
			url := "http://" + listener.Addr().String()
			response, err := http.Post(url+chatPath, "", strings.NewReader(jsonText(s.endless(map[string]any{"messages": said("The sea."), "max_tokens": 400}))))
			must(t, err)
			defer response.Body.Close()
			stop()
			events, done := readEvents(t, response.Body)
			equal(t, "done", done, name == "drained")
			last := events[len(events)-1]
			if name == "drained" {
				equal(t, "reason", at(last, "choices", 0, "finish_reason"), "length")
			} else {
				equal(t, "code", at(last, "error", "code"), "shutting_down")
			}
			must(t, <-ended)
			_, err = http.Get(url + "/health")
			equal(t, "nobody listens", err != nil, true)
		})
	}
}

// Connections that are open already get a sentence during a shutdown.
func TestDraining(t *testing.T) {
	s := newTestServer(t, nil)
	s.draining.Store(true)
	status, answer, _ := s.post(chatPath, `{}`)
	equal(t, "status", status, 503)
	equal(t, "code", at(answer, "error", "code"), "shutting_down")
	response, err := http.Get(s.URL + "/health")
	must(t, err)
	response.Body.Close()
	equal(t, "health", response.StatusCode, 503)
}

func TestPanics(t *testing.T) {
	s := newTestServer(t, nil)
	h := s.handle("GET /x", func(http.ResponseWriter, *http.Request) error { panic("oh") })
	server := newHTTPTest(t, h)
	response, err := http.Get(server + "/x")
	must(t, err)
	body, err := io.ReadAll(response.Body)
	must(t, err)
	response.Body.Close()
	equal(t, "status", response.StatusCode, 500)
	equal(t, "says nothing of the inside", strings.Contains(string(body), "oh"), false)
}

// Each line of /metrics is a comment or a sample, each sample's metric has a type, and none comes twice.
func TestMetricsFormat(t *testing.T) {
	s := newTestServer(t, nil)
	s.ok(chatPath, map[string]any{"model": "toy", "messages": said("a"), "max_tokens": 3})
	response, err := http.Get(s.URL + "/metrics")
	must(t, err)
	defer response.Body.Close()
	comment := regexp.MustCompile(`^# (HELP [a-z_]+ .+|TYPE ([a-z_]+) (counter|gauge|histogram))$`)
	sample := regexp.MustCompile(`^([a-z_]+)(\{([a-z]+="[^"\n]*",?)+\})? [0-9.e+-]+$`)
	typed, seen := map[string]bool{}, map[string]bool{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		line := lines.Text()
		if c := comment.FindStringSubmatch(line); c != nil {
			if c[2] != "" {
				equal(t, "typed twice: "+c[2], typed[c[2]], false)
				typed[c[2]] = true
			}
			continue
		}
		c := sample.FindStringSubmatch(line)
		if c == nil {
			t.Fatalf("neither comment nor sample: %s", line)
		}
		base := c[1]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if trimmed := strings.TrimSuffix(c[1], suffix); typed[trimmed] {
				base = trimmed
			}
		}
		equal(t, "typed: "+line, typed[base], true)
		series, _, _ := strings.Cut(line, "} ")
		equal(t, "twice: "+series, seen[series], false)
		seen[series] = true
	}
	equal(t, "tokens", s.metric(`ember_generated_tokens_total{model="toy"}`), "3")
	equal(t, "first tokens", s.metric(`ember_time_to_first_token_seconds_count{model="toy"}`), "1")
}

func TestHistogram(t *testing.T) {
	h := newHistogram([]float64{1, 2})
	for _, value := range []float64{0.5, 1, 1.5, 3} {
		h.observe(value)
	}
	var out strings.Builder
	h.write(&out, "h", `a="b"`)
	equal(t, "histogram", out.String(), `h_bucket{a="b",le="1"} 2
h_bucket{a="b",le="2"} 3
h_bucket{a="b",le="+Inf"} 4
h_sum{a="b"} 6
h_count{a="b"} 4
`)
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"", "no model"},
		{"-m a b", `"b" is no flag`},
		{"-m a -max-body 0", "above 0"},
		{"-m a -chat-template nowhere", "nowhere"},
		{"-m a -api-keys " + writeFile(t, "# none\n"), "has no keys"},
	} {
		_, err := parse(strings.Fields(c.args))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.args, err)
		}
	}
	c, err := parse(strings.Fields("-m a -m b=c -ctx 5 -api-keys " + writeFile(t, "one\ntwo\n")))
	must(t, err)
	equal(t, "models", c.models, []string{"a", "b=c"})
	equal(t, "keys", len(c.keys), 2)
	for models, says := range map[string]string{"no.gguf": "no.gguf", "=x": "neither", "a=" + toy + " a=" + toy: "two models are called a"} {
		c.models = strings.Fields(models)
		err := run(context.Background(), c, discard())
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", models, err)
		}
	}
	c.models, c.addr, c.size = []string{toy}, "nowhere:port", 0
	var network *net.OpError
	equal(t, "no address", errors.As(run(context.Background(), c, discard()), &network), true)
}
