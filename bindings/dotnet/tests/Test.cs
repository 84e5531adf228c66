using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using Ember;

/// <summary>
/// Tests of the package: Tests.exe ROOT WORK CHAT_MODEL. WORK has what bindings/lines.py prints, and tools.gguf of bindings/tool_model.py, if
/// there is a model to make it of.
/// </summary>
public static class Test
{
    public static string Root, Work, ChatModel;

    public static string Tales => Path.Combine(Root, "examples/models/ember-tales.gguf");

    public static string Rotary => Path.Combine(Root, "tests/fixtures/models/llama-tied-f32.gguf");

    public static void Equal<T>(string what, T got, T want)
    {
        if (!Equals(got, want)) throw new Exception(what + ": " + got + " instead of " + want);
    }

    public static void Same<T>(string what, IEnumerable<T> got, IEnumerable<T> want)
    {
        if (!got.SequenceEqual(want)) throw new Exception(what + ": " + string.Join(" ", got) + " instead of " + string.Join(" ", want));
    }

    public static void True(string what, bool so)
    {
        if (!so) throw new Exception(what);
    }

    /// <summary>The call is refused with this status, and a sentence that has these words.</summary>
    public static void Refused(Status status, string says, Action call)
    {
        var e = Thrown<EmberException>(call);
        if (e.Status != status || !e.Message.Contains(says)) throw new Exception("refused otherwise than as " + status + ", " + says + ": " + e);
    }

    /// <summary>What the call throws.</summary>
    public static T Thrown<T>(Action call) where T : Exception
    {
        try
        {
            call();
        }
        catch (T e)
        {
            return e;
        }
        throw new Exception("no " + typeof(T).Name);
    }

    public static void Disposed(string what, Action call)
    {
        var e = Thrown<ObjectDisposedException>(call);
        True("says what is disposed of: " + e.Message, e.Message.Contains("the " + what + " is disposed of"));
    }

    /// <summary>The fields of the lines of a file that bindings/lines.py made.</summary>
    public static string[][] Lines(string kind)
    {
        var lines = File.ReadAllLines(Path.Combine(Work, kind + ".txt")).Select(line => line.Split('\t')).ToArray();
        True("lines of " + kind, lines.Length > 0);
        return lines;
    }

    public static uint[] Tokens(string text) => Words(text).Select(uint.Parse).ToArray();

    public static float[] Numbers(string text) => Words(text).Select(word => (float)Number(word)).ToArray();

    public static double Number(string text) => double.Parse(text, System.Globalization.CultureInfo.InvariantCulture);

    private static string[] Words(string text) => text.Split(new[] { ' ' }, StringSplitOptions.RemoveEmptyEntries);

    public static void Near(string what, IList<float> got, IList<float> want, double tolerance)
    {
        Equal(what + ": length", got.Count, want.Count);
        for (var i = 0; i < got.Count; i++)
        {
            if (!(Math.Abs(got[i] - want[i]) <= tolerance)) throw new Exception(what + ", number " + i + ": " + got[i] + " instead of " + want[i]);
        }
    }

    public static string Text(EventStream<Event> events) => string.Concat(events.Select(one => one.Text));

    public static int Main(string[] arguments)
    {
        Root = arguments[0];
        Work = arguments[1];
        ChatModel = arguments[2];
        var passed = 0;
        foreach (var test in new Action[]
        {
            GoldenTest.Generations, GoldenTest.Vectors, GoldenTest.Score, GoldenTest.Shift, GoldenTest.Dense, GoldenTest.Rank,
            ModelTest.Library, ModelTest.Metadata, ModelTest.Loading, ModelTest.Borrowed, ModelTest.Contexts, ModelTest.Sequences,
            ModelTest.Timings, ModelTest.Tokens, ModelTest.Prompts, ModelTest.Tokenizers, ModelTest.Logs, ModelTest.Misuse,
            GenerateTest.Streams, GenerateTest.Raw, GenerateTest.Cancelled, GenerateTest.Tasks, GenerateTest.Drafts, GenerateTest.Completions,
            GenerateTest.Engines, GenerateTest.Garbage, GenerateTest.Growth,
            SamplerTest.Choices, SamplerTest.Repetitions, SamplerTest.ByHand, SamplerTest.Kept, SamplerTest.OwnStages, SamplerTest.Proposals,
            ChatTest.Conversations, ChatTest.Copies, ChatTest.Full, ChatTest.Constraints, ChatTest.Parser, ChatTest.Chats, ChatTest.Tools,
        })
        {
            var name = test.Method.DeclaringType.Name + "." + test.Method.Name;
            try
            {
                test();
            }
            catch (Exception e)
            {
                Console.Error.WriteLine("FAILED: " + name + ": " + e);
                return 1;
            }
            passed++;
        }
        Console.WriteLine(passed + " passed, 0 failed");
        return 0;
    }
}
