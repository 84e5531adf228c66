package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"ember.example/ember"
)

// rerankRequest is the body of POST /v1/rerank, in the form that Cohere, Jina and others have in common.
type rerankRequest struct {
	Model           string            `json:"model"`
	Query           string            `json:"query"`
	Documents       []json.RawMessage `json:"documents"` // texts, or objects with a text
	TopN            *int              `json:"top_n"`
	ReturnDocuments *bool             `json:"return_documents"`
}

type rerankAnswer struct {
	ID      string         `json:"id"`
	Model   string         `json:"model"`
	Results []rerankResult `json:"results"` // the best first
}

type rerankResult struct {
	Index    int             `json:"index"`
	Score    float32         `json:"relevance_score"`
	Document *rerankDocument `json:"document,omitempty"`
}

type rerankDocument struct {
	Text string `json:"text"`
}

func (s *server) rerank(w http.ResponseWriter, r *http.Request) error {
	var request rerankRequest
	if err := s.read(w, r, &request, bookkeeping); err != nil {
		return err
	}
	m, err := s.modelNamed(request.Model)
	if err != nil {
		return err
	}
	if request.Query == "" {
		return invalid("query", "query is missing.")
	}
	if n := len(request.Documents); n == 0 || n > mostTexts {
		return invalid("documents", "documents has %d elements; it must have 1 to %d.", n, mostTexts)
	}
	if request.TopN != nil && *request.TopN < 1 {
		return invalid("top_n", "top_n must be at least 1, not %d.", *request.TopN)
	}
	texts := make([]string, len(request.Documents))
	for i, document := range request.Documents {
		if json.Unmarshal(document, &texts[i]) == nil && !absent(document) {
			continue
		}
		var object rerankDocument
		if err := decode(document, &object, rules{}, fmt.Sprintf("documents[%d].", i)); err != nil {
			return err
		}
		texts[i] = object.Text
	}
	var scores []float32
	err = m.aside.use(r.Context(), func(c *ember.Context) (err error) {
		scores, err = c.Rerank(r.Context(), request.Query, texts)
		return err
	})
	if err != nil {
		return err
	}
	answer := rerankAnswer{ID: newID("rerank-"), Model: m.name, Results: make([]rerankResult, len(texts))}
	for i, score := range scores {
		answer.Results[i] = rerankResult{Index: i, Score: score}
		if isTrue(request.ReturnDocuments) {
			answer.Results[i].Document = &rerankDocument{texts[i]}
		}
	}
	slices.SortStableFunc(answer.Results, func(a, b rerankResult) int { return cmp.Compare(b.Score, a.Score) })
	answer.Results = answer.Results[:min(or(request.TopN, len(texts)), len(texts))]
	return writeJSON(w, http.StatusOK, answer)
}
