// Says of each line of JSON whether the package flag takes its words: `go run . < lines.jsonl`.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
)

type line struct {
	Options map[string]string // by name, without dashes
	Words   []string
}

func main() {
	lines := json.NewDecoder(bufio.NewReader(os.Stdin))
	for {
		var one line
		if lines.Decode(&one) == io.EOF {
			return
		}
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		flags.SetOutput(io.Discard)
		for name, kind := range one.Options {
			switch kind {
			case "flag":
				flags.Bool(name, false, "")
			case "int":
				flags.Int(name, 0, "")
			case "float":
				flags.Float64(name, 0, "")
			default:
				flags.String(name, "", "")
			}
		}
		err := flags.Parse(one.Words)
		fmt.Println(err == nil || err == flag.ErrHelp)
	}
}
