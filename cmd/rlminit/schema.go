package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"rlminit/config"
	"rlminit/plan"
)

func schemaVerb(t *terminal) *cobra.Command {
	kinds := []string{config.ConfigurationFile, config.ServiceFile, config.ProfileFile, plan.SetFile}
	return &cobra.Command{
		Use:   "schema [KIND]",
		Short: "write the JSON schema of the configuration, for editors",
		Long: `Writes the JSON schema (draft 2020-12) of rlminit.yaml, the default, or of the
KIND service.yaml (a file of services.d), profile.yaml or set.yaml (what rlminit
plan reads). With it an editor completes keys and marks errors as you type;
rlminit check finds the rest. For the YAML language server, name it in the first
line of a configuration:

  # yaml-language-server: $schema=/etc/rlminit/schema.json`,
		Example: `  rlminit schema >schema.json
  rlminit schema profile.yaml >profile.schema.json`,
		ValidArgs: kinds,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return misused(cmd, "unexpected argument %q", args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			kind := config.ConfigurationFile
			if len(args) > 0 {
				kind = args[0]
			}
			schemas := config.Schemas()
			schemas[plan.SetFile] = config.SchemaOf(plan.SetFile, plan.Describe())
			schema := schemas[kind]
			if schema == nil {
				return misused(cmd, "there is no schema of %q; there are those of rlminit.yaml, service.yaml, profile.yaml and set.yaml", kind)
			}
			b, err := json.Marshal(schema)
			if err != nil {
				return err
			}
			t.printf("%s\n", b)
			return nil
		},
	}
}
