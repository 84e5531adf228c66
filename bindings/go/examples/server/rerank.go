package main

import "net/http"

// rerank is POST /v1/rerank, which the library has no function for yet.
func (s *server) rerank(http.ResponseWriter, *http.Request) error {
	return newError(http.StatusNotImplemented, "invalid_request_error", "unsupported_endpoint", "This server does not rerank yet.")
}
