package ember

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

const fixtures = root + "tests/fixtures/models/"

func textOf(t *testing.T, m *Model) string {
	t.Helper()
	c, err := m.NewContext(WithThreads(1), WithSize(64))
	must(t, err)
	defer c.Close()
	whole, err := c.Complete(context.Background(), prompt, WithMaxTokens(3))
	must(t, err)
	return whole.Text
}

func TestLoadFile(t *testing.T) {
	ctx := context.Background()
	data := readFile(t, modelPath)
	path := filepath.Join(t.TempDir(), "archive")
	must(t, os.WriteFile(path, append(append(make([]byte, 4096), data...), "after"...), 0o600))
	file, err := os.Open(path)
	must(t, err)
	m, err := LoadFile(ctx, file, 4096, int64(len(data)))
	must(t, err)
	defer m.Close()
	_, err = LoadFile(ctx, file, 4096, int64(len(data)+7))
	refusal(t, err, ErrInvalidArgument, "offset")
	_, err = LoadFile(ctx, file, 0, 0)
	refusal(t, err, ErrFormat, "<fd ")
	_, err = LoadFile(ctx, file, -1, 0)
	refusal(t, err, ErrInvalidArgument, "offset")
	must(t, file.Close())
	equal(t, "text", textOf(t, m), ", I was")
	_, err = LoadFile(ctx, file, 0, 0)
	if !errors.Is(err, os.ErrClosed) {
		t.Fatalf("a closed file: %v", err)
	}
}

func TestLoadBorrowed(t *testing.T) {
	ctx := context.Background()
	before := live.Load()
	released := 0
	m, err := LoadBorrowed(ctx, []byte(readFile(t, modelPath)), func() { released++ }, WithPack(PackNever))
	must(t, err)
	runtime.GC() // nothing but the model holds the bytes
	c, err := m.NewContext(WithThreads(1))
	must(t, err)
	must(t, m.Close())
	runtime.GC()
	whole, err := c.Complete(ctx, prompt, WithMaxTokens(3))
	must(t, err)
	equal(t, "text", whole.Text, ", I was")
	equal(t, "releases with a context", released, 0)
	must(t, c.Close())
	equal(t, "releases", released, 1)

	odd := append(make([]byte, 1, 4<<20), readFile(t, modelPath)...)
	m, err = LoadBorrowed(ctx, odd[1:], func() { released++ })
	must(t, err)
	equal(t, "releases of what had to be copied", released, 2)
	clear(odd)
	equal(t, "text", textOf(t, m), ", I was")
	must(t, m.Close())

	for _, options := range [][]LoadOption{nil, {WithISA("abacus")}} {
		if _, err = LoadBorrowed(ctx, []byte("no GGUF"), func() { released++ }, options...); err == nil {
			t.Fatal("a model of nothing")
		}
	}
	_, err = LoadBorrowed(ctx, nil, nil)
	if err == nil {
		t.Fatal("a model without bytes")
	}
	equal(t, "releases after errors", released, 2)
	equal(t, "handles", live.Load(), before)
}

func TestLoadOfNoFile(t *testing.T) {
	ctx := context.Background()
	folder := t.TempDir()
	for _, path := range []string{filepath.Join(folder, "none.gguf"), filepath.Join(folder, "none", "none.gguf"), "no such model"} {
		_, err := Load(ctx, path)
		refusal(t, err, ErrIO, path)
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v is not %v", err, fs.ErrNotExist)
		}
	}
	_, err := Load(ctx, folder) // exists, and is no model
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty folder: %v", err)
	}
}

func TestProgress(t *testing.T) {
	ctx := context.Background()
	last, calls := float32(0), 0
	m, err := Load(ctx, modelPath, WithMmap(false), WithProgress(func(done float32) error {
		if done < last || done > 1 {
			t.Errorf("%v after %v", done, last)
		}
		last = done
		calls++
		return nil
	}))
	must(t, err)
	m.Close()
	equal(t, "the end", last, 1)
	if calls == 0 {
		t.Fatal("no progress")
	}
	stop := WithProgress(func(float32) error { return errEnough })
	_, err = Load(ctx, modelPath, stop)
	refusal(t, err, ErrCancelled, "enough")
	if !errors.Is(err, errEnough) {
		t.Fatalf("%v does not wrap the function's error", err)
	}
	_, err = LoadBytes(ctx, []byte(readFile(t, modelPath)), stop)
	refusal(t, err, ErrCancelled, "enough")
	_, err = Load(ctx, modelPath, stop, stop)
	refusal(t, err, ErrInvalidArgument, "WithProgress")
	defer func() { equal[any](t, "panic", recover(), "progress") }()
	_, _ = Load(ctx, modelPath, WithProgress(func(float32) error { panic("progress") }))
}

func TestMoreLoadOptions(t *testing.T) {
	ctx := context.Background()
	m, err := Load(ctx, fixtures+"llama-linear-rope-mha.gguf", WithMeta("llama.context_length", 77), WithMeta("own.flag", true),
		WithMeta("own.number", 0.5), WithMeta("own.text", "naïve"), WithMeta("own.nothing", ""), WithMeta("own.big", int64(math.MinInt64)))
	must(t, err)
	defer m.Close()
	equal(t, "positions", m.Info().TrainContext, 77)
	for key, want := range map[string]any{"own.flag": true, "own.number": 0.5, "own.text": "naïve", "own.nothing": "", "own.big": int64(math.MinInt64)} {
		got, err := m.Meta(key)
		must(t, err)
		equal(t, key, got, want)
	}
	_, err = Load(ctx, modelPath, WithMeta("", 1))
	refusal(t, err, ErrInvalidArgument, "key")

	data := []byte(readFile(t, fixtures+"llama-tied-f32.gguf"))
	good, err := LoadBytes(ctx, data, WithCheckTensors(true), WithMemoryLimit(1<<30))
	must(t, err)
	must(t, good.Close())
	copy(data[len(data)-4:], []byte{0, 0, 0xc0, 0x7f}) // NaN
	_, err = LoadBytes(ctx, data, WithCheckTensors(true))
	refusal(t, err, ErrFormat, "finite")
	_, err = Load(ctx, modelPath, WithMmap(false), WithMemoryLimit(1000))
	refusal(t, err, ErrNoMemory, "")
	locked, err := Load(ctx, modelPath, WithLock(true))
	if err != nil { // as much as the system lets it
		refusal(t, err, ErrNoMemory, "")
	} else {
		must(t, locked.Close())
	}

	experts, err := Load(ctx, fixtures+"llama-moe-8-2.gguf")
	must(t, err)
	defer experts.Close()
	equal(t, "experts", experts.Info().Experts, 8)
	equal(t, "experts of a token", experts.Info().ExpertsUsed, 2)
	equal(t, "template", experts.Info().ChatTemplate, false)
}

func TestInspect(t *testing.T) {
	raw, err := Inspect(modelPath)
	must(t, err)
	var header struct {
		Supported bool   `json:"supported"`
		Params    uint64 `json:"n_params"`
	}
	must(t, json.Unmarshal(raw, &header))
	equal(t, "supported", header.Supported, true)
	equal(t, "parameters", header.Params, bundled(t).Info().Params)
	_, err = Inspect("no such model.gguf")
	refusal(t, err, ErrIO, "no such model.gguf")
}

func TestMemory(t *testing.T) {
	options := []ContextOption{WithSize(64), WithThreads(1)}
	estimate, err := EstimateMemory(modelPath, nil, options)
	must(t, err)
	c := newContext(t, options...)
	memory, err := c.Memory()
	must(t, err)
	equal(t, "memory", memory, estimate)
	if memory.KV == 0 || memory.Workspace == 0 || memory.File == 0 {
		t.Fatalf("%+v", memory)
	}
	model, err := bundled(t).Memory()
	must(t, err)
	equal(t, "memory of the model", model, Memory{File: memory.File, Weights: memory.Weights})
	read, err := EstimateMemory(modelPath, []LoadOption{WithMmap(false)}, append(options, WithKVType(KVF32)))
	must(t, err)
	if read.Weights <= memory.Weights || read.KV <= memory.KV {
		t.Fatalf("%+v, %+v", read, memory)
	}
	_, err = bundled(t).NewContext(WithContextMemoryLimit(1000))
	refusal(t, err, ErrNoMemory, "")
	_, err = EstimateMemory("no such model.gguf", nil, nil)
	refusal(t, err, ErrIO, "")
	_, err = EstimateMemory(modelPath, []LoadOption{WithISA("abacus")}, nil)
	refusal(t, err, ErrInvalidArgument, "abacus")
	_, err = EstimateMemory(modelPath, nil, []ContextOption{WithSequences(0)})
	refusal(t, err, ErrInvalidArgument, "")
}

func TestTimings(t *testing.T) {
	c := newContext(t)
	ctx := context.Background()
	whole, err := c.Complete(ctx, prompt, WithMaxTokens(4))
	must(t, err)
	_, err = c.Embed(ctx, []string{"The moon"})
	must(t, err)
	timings, err := c.Timings()
	must(t, err)
	equal(t, "tokens of the prompt", timings.PrefillTokens, uint64(whole.Usage.PromptTokens))
	if timings.DecodeTokens < 3 || timings.EmbedTokens == 0 || min(timings.Load, timings.Prefill, timings.Decode, timings.Embed) <= time.Duration(0) {
		t.Fatalf("%+v", timings)
	}
	must(t, c.ResetTimings())
	reset, err := c.Timings()
	must(t, err)
	equal(t, "after the reset", reset, Timings{Load: timings.Load})
}
