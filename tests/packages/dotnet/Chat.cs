using System;
using System.IO;
using System.Text;
using Ember;

/// <summary>Answers each line of standard input, as it comes.</summary>
static class Chat
{
    static void Main(string[] arguments)
    {
        var utf8 = new UTF8Encoding(false);
        var lines = new StreamReader(Console.OpenStandardInput(), utf8);
        using (var said = new StreamWriter(Console.OpenStandardOutput(), utf8) { AutoFlush = true, NewLine = "\n" })
        using (var model = Model.Load(arguments[0]))
        using (var context = model.CreateContext())
        using (var chat = context.CreateConversation("", null, new GenerateOptions { MaxTokens = 32 }))
        {
            for (var line = lines.ReadLine(); line != null; line = lines.ReadLine())
            {
                foreach (var one in chat.Send(line))
                {
                    if (one.IsText) said.Write(one.Text);
                }
                said.WriteLine();
            }
        }
    }
}
