package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"rlminit/control"
)

func profileSecretVerb(t *terminal) *cobra.Command {
	return group("secret", "list and forget the secrets of profiles", `A profile's secrets are those of profile create --secret and profile set
--secret. No verb shows a value.`, profileSecretListVerb(t), profileSecretForgetVerb(t))
}

func profileSecretListVerb(t *terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list NAME",
		Short: "list the secrets of a profile",
		Long: `Lists the secrets of the profile NAME: the version of its secrets that brought
the value, since when it has that, the uid that gave it, and whether its gateway
runs with it. Values are not shown.`,
		Example:           `  rlminit profile secret list alice`,
		Args:              exactly("NAME"),
		ValidArgsFunction: completeProfiles,
		RunE: t.asking(func(cmd *cobra.Command, args []string, client *control.Client) error {
			list, err := client.Secrets(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return answer(t, list, func() {
				b := new(table)
				b.header("NAME", "VERSION", "SINCE", "UID", "IN USE")
				for _, s := range list {
					uid := "-"
					if s.UID != nil {
						uid = strconv.FormatUint(uint64(*s.UID), 10)
					}
					b.row(s.Name, strconv.Itoa(s.Version), localTime(s.At), uid, map[bool]string{true: "yes", false: "no"}[s.InUse])
				}
				b.write(t)
			})
		}),
	}
	return limited(formatted(t, forPrograms(t, cmd, "write a JSON array")))
}

func profileSecretForgetVerb(t *terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "forget NAME KEY…",
		Short: "remove secrets of a profile wherever they are kept",
		Long: `Removes the secret KEY of the profile NAME: its own, that of its entries in the
trash, and all earlier values in revisions. A rollback that would bring it back
is refused from then on, and names it. A gateway that runs keeps the value until
it is restarted. NAME may be deleted already.`,
		Example:           `  rlminit profile secret forget alice TOKEN`,
		Args:              atLeast("NAME", "KEY"),
		ValidArgsFunction: completeProfiles,
		RunE: t.asking(func(cmd *cobra.Command, args []string, client *control.Client) error {
			done, err := client.ForgetSecrets(cmd.Context(), args[0], once(args[1:]))
			if err != nil {
				return err
			}
			return answer(t, done, func() {
				t.printf("%s: forgotten: %s%s\n", printable(done.Profile), strings.Join(done.Names, ", "), forgottenWhere(done))
			})
		}),
	}
	return limited(forPrograms(t, cmd, "write a JSON object"))
}

// forgottenWhere says where secrets were that are kept no longer.
func forgottenWhere(done control.ForgottenSecrets) string {
	var where []string
	if done.Own {
		where = append(where, "the profile")
	}
	if n := len(done.Trash); n > 0 {
		where = append(where, counted(n, "entry of the trash", "entries of the trash"))
	}
	if n := len(done.Revisions); n > 0 {
		where = append(where, counted(n, "revision", "revisions"))
	}
	return fmt.Sprintf(" (%s)", strings.Join(where, ", "))
}
